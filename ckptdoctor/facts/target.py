"""The target: the few sizes of its config that a draft must fit, wherever a wrapper keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.by_address import open_remote
from ckptdoctor.checkpoint.folder import Folder, locate
from ckptdoctor.checkpoint.remote import RemoteFolder, at_hub
from ckptdoctor.checkpoint.weights import read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.knowledge import Knowledge, knowledge
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Target", "read_target"]

MAX_WRAPPERS = 4
_NO_POSITIONS = Unknown("max_position_embeddings in the target's config")


@dataclass(frozen=True)
class Target:
    """The target as its config describes it.

    `config_path` names the nested object that the sizes came from (`""`: the outermost). Sizes that the
    config does not give are unknown. `has_experts`, `is_quantised` and `is_hybrid` (attention beside
    state-space or linear layers) are what engines look at when they choose how to run it. `root` is the
    folder, for its tokenizer files; None when a single file was named. `dense_layers` is how many layers
    stand before the first with experts (`first_k_dense_replace`), 0 where the config does not say. `max_positions` is
    the number of positions that it can take (`max_position_embeddings`). `config` is the object that the sizes came
    from, `document` the whole config.json.
    """

    path: str
    architecture: str | None
    model_type: str | None
    config_path: str
    hidden_size: Known[int]
    num_layers: Known[int]
    vocab_size: Known[int]
    eos_token_ids: tuple[int, ...]
    root: Path | None
    has_experts: bool = False
    is_quantised: bool = False
    is_hybrid: bool = False
    dense_layers: int = 0
    max_positions: Known[int] = _NO_POSITIONS
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Files of the Hub are known at `root` as long as somebody holds them.
    _remote: RemoteFolder | None = field(default=None, repr=False, compare=False)


def read_target(path: str, known: Knowledge | None = None) -> Target:
    """Read the target's config from a folder, a file or `hf://org/name`.

    Raises `RemoteError` when the Hub does not answer, `CannotExamineError` when there is none or it is no JSON object.
    """
    there = open_remote(path) if at_hub(path) else None
    root, only = locate(path) if there is None else (there.root, None)
    folder = Folder(root)
    document = read_json_file(folder, only or "config.json")
    if document is None:
        raise CannotExamineError(f"--target {show(path)}: no config.json there")
    if not document.readable:
        why = document.faults[-1].detail or document.faults[-1].kind.replace("_", " ")
        raise CannotExamineError(f"--target {show(path)}: {show(document.file)} cannot be read ({why})")
    words = (known or knowledge()).fields["target"]
    config, where = _unwrap(document.object, words)
    architectures = document.object.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    model_type = config.get("model_type")
    return Target(
        path=path,
        architecture=first if isinstance(first, str) else None,
        model_type=model_type if isinstance(model_type, str) else None,
        config_path=where,
        hidden_size=_size(config, words["hidden_size"]),
        num_layers=_size(config, words["num_layers"]),
        vocab_size=_size(config, words["vocab_size"]),
        eos_token_ids=_ids(config.get("eos_token_id", document.object.get("eos_token_id"))),
        root=root if only is None or only == "config.json" else None,
        has_experts=any(config.get(key) for key in words["experts"]),
        is_quantised=bool(document.object.get("quantization_config") or config.get("quantization_config")),
        is_hybrid=any(config.get(key) for key in words["hybrid"]) or _has_layers(config, words["hybrid_layers"]),
        dense_layers=_count(config.get("first_k_dense_replace")),
        max_positions=_size(config, words["max_positions"]),
        config=config,
        document=document.object,
        _remote=there,
    )


def _has_layers(config: Mapping[str, Any], kinds: Sequence[str]) -> bool:
    listed = config.get("layer_types")
    return isinstance(listed, list) and any(isinstance(kind, str) and kind in kinds for kind in listed)


def _unwrap(config: dict[str, Any], words: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The object that describes the language model: a wrapper's text part wins over the wrapper's own fields."""
    path: list[str] = []
    for _ in range(MAX_WRAPPERS):
        inner = next((w for w in words["wrappers"] if _describes_model(config.get(w), words)), None)
        if inner is None:
            break
        config = config[inner]
        path.append(inner)
    return config, ".".join(path)


def _describes_model(value: Any, words: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict):
        return False
    sizes = (*words["hidden_size"], *words["num_layers"])
    return any(k in value for k in sizes) or any(isinstance(value.get(w), dict) for w in words["wrappers"])


def _size(config: Mapping[str, Any], keys: list[str]) -> Known[int]:
    for key in keys:
        value = config.get(key)
        if type(value) is int and 0 < value < 2**40:
            return value
    return Unknown(f"{keys[0]} in the target's config")


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < 2**31 else 0


def _ids(value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(v for v in values if type(v) is int)
