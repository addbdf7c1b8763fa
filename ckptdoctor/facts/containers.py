"""What lies in the folder beside, or in place of, weights that can be read: other formats, leftovers, adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.checkpoint.foreign import ForeignFile
from ckptdoctor.checkpoint.gguf import GgufHeader
from ckptdoctor.facts.knowledge import knowledge

__all__ = ["Foreign", "GgufDraft", "Leftover", "adapter_alone", "foreign_of", "ggufs_of", "leftovers_of"]

_NAMES = 200
"""Names of one kind of leftover that are kept."""


@dataclass(frozen=True)
class Foreign:
    """A file of another format: what people call the format, and who reads it."""

    file: str
    format: str
    name: str
    readers: str


@dataclass(frozen=True)
class GgufDraft:
    """A GGUF file, as its header tells it.

    `state` is `damaged` (the header cannot be read), `fork` (an architecture that only forks of llama.cpp know),
    `lacks` (a draft of llama.cpp without the metadata that it insists on: `missing`), `empty` (no tensors), `draft`
    (a draft of which nothing more is judged), `block_missing` (the metadata counts blocks for multi-token
    prediction of which nothing is stored: `blocks_missing`) or `other` (no draft by its architecture). `layer_keys` are
    the keys under which captured layers stand. `nextn_key` counts those blocks, `nextn` is how many there are.
    """

    file: str
    architecture: str | None
    tensor_count: int
    state: str
    missing: tuple[str, ...]
    layer_keys: tuple[str, ...]
    blocks_missing: tuple[int, ...] = ()
    nextn_key: str = ""
    nextn: int = 0


@dataclass(frozen=True)
class Leftover:
    """One kind of what a trainer left: what it is, and the names of the files and folders."""

    what: str
    names: tuple[str, ...]


def foreign_of(checkpoint: Checkpoint) -> tuple[Foreign, ...]:
    """The files of other formats in the folder."""
    words = knowledge().words["formats"]["formats"]
    return tuple(
        Foreign(f.file, f.format, words[f.format]["name"], words[f.format]["readers"]) for f in checkpoint.foreign
    )


def ggufs_of(checkpoint: Checkpoint) -> tuple[GgufDraft, ...]:
    """The GGUF files in the folder."""
    return tuple(_gguf(file) for file in checkpoint.foreign if file.gguf is not None)


def _gguf(file: ForeignFile) -> GgufDraft:
    words = knowledge().words["formats"]
    header = file.gguf
    assert header is not None
    name, count = header.architecture, header.tensor_count or 0
    keys = tuple(sorted(key for key in header.keys if re.search(words["gguf_layer_keys"], key)))
    missing: tuple[str, ...] = ()
    if header.faults:
        state = "damaged"
    elif name is not None and re.search(words["gguf_forks"], name):
        state = "fork"
    elif name in words["gguf_drafts"]:
        needs = words["gguf_drafts"][name]["needs"]
        absent = [group for group in needs if not any(f"{name}.{key}" in header.keys for key in group)]
        missing = tuple(f"{name}.{group[0]}" for group in absent)
        state = "lacks" if missing else "draft"
    else:
        state = "other"
    if count == 0 and state not in ("damaged", "fork", "lacks"):
        state = "empty"
    key = f"{name}.{words['gguf_nextn']}"
    blocks = _blocks_missing(header, key) if state in ("draft", "other") else ()
    if blocks:
        state = "block_missing"
    return GgufDraft(file.file, name, count, state, missing, keys, blocks, key, header.metadata.get(key) or 0)


def _blocks_missing(header: GgufHeader, key: str) -> tuple[int, ...]:
    """The blocks for multi-token prediction, the last of those that block_count counts, of which nothing is stored.

    Only of a file that is whole and not one of several.
    """
    count, total = header.metadata.get(key), header.metadata.get(f"{header.architecture}.block_count")
    if type(count) is not int or type(total) is not int or not 0 < count < min(total, 64):
        return ()
    if (header.metadata.get("split.count") or 0) > 1 or not header.blocks:
        return ()
    return tuple(number for number in range(total - count, total) if number not in header.blocks)


def leftovers_of(checkpoint: Checkpoint) -> tuple[Leftover, ...]:
    """What a trainer left in the folder, by kind. What was opened as the draft's weights is none of it."""
    if not checkpoint.whole_folder:
        return ()
    opened = frozenset(checkpoint.files)
    names = [name for name in checkpoint.names_in_folder() if name not in opened]
    found: list[Leftover] = []
    for row in knowledge().words["formats"]["leftovers"]:
        folders = row.get("folders", False)
        fitting = tuple(
            name for name in names if re.search(row["names"], name) and (not folders or _is_folder(checkpoint, name))
        )[:_NAMES]
        if fitting:
            found.append(Leftover(row["what"], fitting))
    return tuple(found)


def _is_folder(checkpoint: Checkpoint, name: str) -> bool:
    try:
        return (checkpoint.root / name).is_dir()
    except (OSError, ValueError):
        return False


def adapter_alone(checkpoint: Checkpoint) -> bool:
    """Whether all weights in the folder are those of a low-rank adapter."""
    pattern = knowledge().words["formats"]["adapter_files"]
    return bool(checkpoint.files) and all(re.search(pattern, name) for name in checkpoint.files)
