"""What of the target's quantisation reaches the draft: a rotated residual stream, a packed token embedding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.folder import Folder, is_plain_name
from ckptdoctor.checkpoint.weights import read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.quantisation.store import Module, gather
from ckptdoctor.facts.target import Target

__all__ = ["PackedEmbedding", "Rotation", "find_rotation", "packed_embedding", "target_embedding"]

MOST_NODES = 20_000
DEEPEST = 12


@dataclass(frozen=True)
class Rotation:
    """A sign that the target's residual stream is rotated: the `key` and the `file` it stands in."""

    key: str
    file: str


@dataclass(frozen=True)
class PackedEmbedding:
    """A token embedding in packed form. `columns` are stored, `width` is what they stand for (0: not known)."""

    name: str
    file: str
    dtype: str
    columns: int
    width: int


def find_rotation(target: Target, known: Knowledge) -> Rotation | None:
    """The first sign of a rotated stream in the target's configs; None where there is none."""
    words = known.words["quantisation"]["rotation"]
    for document in (target.document, target.config):
        for place in ("quantization_config", "compression_config"):
            raw = document.get(place)
            if isinstance(raw, dict):
                key = _sign(raw, words)
                if key is not None:
                    return Rotation(f"{place}.{key}", "config.json")
    folder = Folder(target.root) if target.root is not None and target.root.is_dir() else None
    for name in words["files"] if folder is not None else ():
        document_beside = read_json_file(folder, name) if folder is not None else None
        if document_beside is not None and document_beside.readable:
            key = _sign(document_beside.object, words)
            if key is not None:
                return Rotation(key, name)
    return None


def _sign(raw: Mapping[str, Any], words: Mapping[str, Any]) -> str | None:
    keys, texts = frozenset(words["keys"]), tuple(words["words"])
    for path, value in _walk(raw):
        last = path.rpartition(".")[2].lower()
        # R1 is the rotation of the stream in transform_config; elsewhere the name says nothing.
        named = last in keys and (last != "r1" or "transform_config" in path)
        if named and value not in (None, False, 0, "", "none", "None"):
            return path
        if isinstance(value, str) and any(text in value.lower() for text in texts):
            return path
    return None


def _walk(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value with its dotted path; at most `MOST_NODES` of them, and `DEEPEST` levels."""
    waiting: list[tuple[str, Any, int]] = [("", raw, 0)]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        path, value, depth = waiting.pop()
        if path:
            yield path, value
        if depth >= DEEPEST:
            continue
        if isinstance(value, dict):
            inner = list(value.items())[:MOST_NODES]
            waiting += [(f"{path}.{k}".lstrip("."), v, depth + 1) for k, v in reversed(inner)]
        elif isinstance(value, list):
            waiting += [(path, v, depth + 1) for v in value[:200] if isinstance(v, (dict, list, str))]


def packed_embedding(modules: Mapping[str, Module], known: Knowledge) -> PackedEmbedding | None:
    """The target's token embedding among `modules`, if it is packed so that a row is narrower than the hidden size."""
    for name in known.naming["target_matrices"]["embedding"]:
        module = modules.get(name.removesuffix(".weight"))
        if module is not None and module.weight is not None and module.form in ("four bits", "packed"):
            info = module.tensors[module.weight]
            shape = module.logical_shape
            columns = info.shape[1] if len(info.shape) == 2 else 0
            return PackedEmbedding(info.name, info.file, info.dtype, columns, shape[1] if shape else 0)
    return None


def target_embedding(target: Target, known: Knowledge) -> PackedEmbedding | None:
    """The same in the target's files. Reads the header of the one file that holds it."""
    root = target.root
    if root is None or not root.is_dir():
        return None
    names = known.naming["target_matrices"]["embedding"]
    stems = tuple(name.removesuffix("weight") for name in names)
    place = _shard(root, stems)
    try:
        checkpoint = open_checkpoint(str(root / place) if place else str(root))
    except (CannotExamineError, OSError):
        return None
    if checkpoint.kind != "safetensors" or not checkpoint.names_sound:
        return None
    return packed_embedding(gather({n: t for n, t in checkpoint.tensors.items() if n.startswith(stems)}), known)


def _shard(root: Path, stems: tuple[str, ...]) -> str | None:
    folder = Folder(root)
    index = read_json_file(folder, "model.safetensors.index.json")
    places = index.object.get("weight_map") if index is not None and index.readable else None
    if not isinstance(places, dict):
        return None
    name = next((v for k, v in places.items() if k.startswith(stems) and isinstance(v, str)), None)
    return name if name is not None and is_plain_name(name) and folder.path(name) is not None else None
