"""The checkpoint as files, for rules: its faults and what lies beside the weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, Fault
from ckptdoctor.facts.containers import (
    Foreign,
    GgufDraft,
    Leftover,
    adapter_alone,
    foreign_of,
    ggufs_of,
    leftovers_of,
)
from ckptdoctor.unknown import Known, Unknown

__all__ = ["QUANT_CONFIG", "Files", "describe_files"]

QUANT_CONFIG = "hf_quant_config.json"
"""Where Model-Optimizer writes how the weights are quantised, beside config.json."""

# Any of these, filled, says how something is quantised (Model-Optimizer's format and that of compressed-tensors).
_WAYS = ("quant_algo", "quant_method", "kv_cache_quant_algo", "kv_cache_scheme", "quantized_layers", "config_groups")


@dataclass(frozen=True)
class NameDifference:
    """Names that only one of two copies of the weights has."""

    file: str
    only_in_pickle: tuple[str, ...]
    only_in_safetensors: tuple[str, ...]


@dataclass(frozen=True)
class AbsentCode:
    """An entry of `auto_map` whose Python file is not beside the weights. `key` is dotted (`auto_map.AutoConfig`)."""

    key: str
    kind: str
    value: str
    file: str


@dataclass(frozen=True)
class CodeMap:
    """`auto_map` of the config, which names code in the folder. `every` says that all its entries are `absent`."""

    absent: tuple[AbsentCode, ...]
    every: bool

    @property
    def classes(self) -> tuple[str, ...]:
        """What the entries name: `modeling_draft.Draft`."""
        return tuple(code.value for code in self.absent)

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that are not there, each once."""
        return tuple(dict.fromkeys(code.file for code in self.absent))


@dataclass(frozen=True)
class QuantConfig:
    """hf_quant_config.json. `says_nothing`: it names no way of quantising, neither for weights nor for the cache."""

    file: str
    says_nothing: bool


@dataclass(frozen=True)
class Files:
    """The files of a checkpoint.

    `kind` is `safetensors`, `pickle`, or `other` where no weights can be read; `size` is in bytes. `has_config` says
    whether a config.json is there; `whole_folder` is False when the person named a single file. `nested_in` is the key
    of a trainer's saved state in which the tensors sit. `beside` compares a pickle that lies beside the
    safetensors: None without one, or when both hold the same names. `code` is `auto_map`, None without one;
    `quant_config` is hf_quant_config.json, None without one. `foreign` are files of other formats, `ggufs` those of
    llama.cpp; `leftovers` is what a trainer left; `adapter_alone` says that all weights are those of a low-rank
    adapter. `path` is the folder as the person named it: some engines choose how to read a config by words in a path.
    """

    kind: str
    names: tuple[str, ...]
    size: int
    tensor_count: int
    faults: tuple[Fault, ...]
    whole_folder: bool
    has_config: bool
    names_sound: bool
    nested_in: str | None
    state_keys: tuple[str, ...]
    beside: Known[NameDifference | None]
    code: CodeMap | None
    quant_config: QuantConfig | None
    foreign: tuple[Foreign, ...] = ()
    ggufs: tuple[GgufDraft, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    adapter_alone: bool = False
    path: str = ""


def describe_files(checkpoint: Checkpoint) -> Files:
    """The facts about files that rules judge."""
    return Files(
        kind=checkpoint.kind,
        names=checkpoint.files,
        size=checkpoint.size,
        tensor_count=len(checkpoint.tensors),
        faults=checkpoint.faults,
        whole_folder=checkpoint.whole_folder,
        has_config=checkpoint.config is not None,
        names_sound=checkpoint.names_sound,
        nested_in=checkpoint.nested_in,
        state_keys=checkpoint.state_keys,
        beside=_difference(checkpoint),
        code=_code(checkpoint),
        quant_config=_quant_config(checkpoint),
        foreign=foreign_of(checkpoint),
        ggufs=ggufs_of(checkpoint),
        leftovers=leftovers_of(checkpoint),
        adapter_alone=adapter_alone(checkpoint),
        path=checkpoint.path if checkpoint.whole_folder else str(Path(checkpoint.path).parent),
    )


def _code(checkpoint: Checkpoint) -> CodeMap | None:
    """The entries of `auto_map` (transformers, dynamic_module_utils.py): `module.Class`, or `org/repo--module.Class`
    for code in another repository, which is not looked for."""
    mapping: Any = checkpoint.config.object.get("auto_map") if checkpoint.config else None
    if not isinstance(mapping, dict) or not mapping or not checkpoint.whole_folder:
        return None
    names = frozenset(checkpoint.names_in_folder())
    absent: list[AbsentCode] = []
    for kind, values in mapping.items():
        # AutoTokenizer names two classes, the slow one and the fast one.
        for value in values if isinstance(values, list) else [values]:
            module, dot, _ = value.rpartition(".") if isinstance(value, str) else ("", "", "")
            if not dot or "--" in module:
                continue
            top = module.split(".")[0]
            if f"{top}.py" not in names and top not in names:
                absent.append(AbsentCode(f"auto_map.{kind}", kind, value, f"{module.replace('.', '/')}.py"))
                break
    return CodeMap(tuple(absent), len(absent) == len(mapping))


def _quant_config(checkpoint: Checkpoint) -> QuantConfig | None:
    document = checkpoint.json(QUANT_CONFIG)
    if document is None:
        return None
    empty = any(fault.kind == "empty_file" for fault in document.faults)
    if not document.readable or not isinstance(document.value, dict):
        return QuantConfig(QUANT_CONFIG, empty or (document.readable and document.value is None))
    inner = document.object.get("quantization")
    places = (document.object, inner if isinstance(inner, dict) else {})
    return QuantConfig(QUANT_CONFIG, not any(place.get(key) for place in places for key in _WAYS))


def _difference(checkpoint: Checkpoint) -> Known[NameDifference | None]:
    names = checkpoint.beside_names
    if names is None or isinstance(names, Unknown):
        return names
    pickled, stored = set(names), set(checkpoint.tensors)
    if pickled == stored or not checkpoint.names_sound:
        return None
    return NameDifference(checkpoint.beside[0], tuple(sorted(pickled - stored)), tuple(sorted(stored - pickled)))
