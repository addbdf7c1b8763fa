"""The edits that a repair is made of: small, typed, and each against the source as it is.

An edit names what it changes by the names of the *source*; all edits of a plan hold at once. Nothing here
reads or writes a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import TensorInfo

__all__ = [
    "AddTensor",
    "Aspect",
    "CastTensor",
    "ConvertPickle",
    "CopyTensor",
    "DropTensor",
    "Edit",
    "OmitFile",
    "RemoveConfig",
    "RenameTensor",
    "ReplaceTensor",
    "RewriteIndex",
    "RewriteJson",
    "SetConfig",
    "SetMetadata",
    "aspects",
    "conflict",
]

Aspect = tuple[str, str]
"""What an edit lays its hand on: a kind (`name`, `data`, `new`, `config`, `file`, `metadata`) and which one."""


@dataclass(frozen=True, slots=True)
class RenameTensor:
    """The stored tensor `name` is called `to`; its bytes are not touched."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropTensor:
    """The stored tensor `name` is left out. `file` says which copy of a name that stands in two files."""

    name: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class ReplaceTensor:
    """The small stored tensor `name` gets other values: `data`, little endian, row by row."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class CastTensor:
    """The small stored tensor `name` holds the same values as `dtype`; `data` are the values so written."""

    name: str
    dtype: str
    data: bytes


@dataclass(frozen=True, slots=True)
class AddTensor:
    """A tensor that the source does not have. `data` None means zeros."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class CopyTensor:
    """A tensor of the target under the name `name`: the matrix `source` of `path`, or its rows `rows` in that order.

    It takes the place of a stored tensor of this name, if there is one.
    """

    name: str
    path: Path
    source: TensorInfo
    rows: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SetConfig:
    """The field at the dotted `key` of `file` holds `value`; objects on the way are made."""

    key: str
    value: Any
    file: str = "config.json"

    def __hash__(self) -> int:
        return hash((self.file, self.key, json.dumps(self.value, sort_keys=True, default=repr)))


@dataclass(frozen=True, slots=True)
class RemoveConfig:
    """The field at the dotted `key` of `file` is left out."""

    key: str
    file: str = "config.json"


@dataclass(frozen=True, slots=True)
class RewriteJson:
    """The JSON `file` is written again with the values that engines read from it, and no others."""

    file: str


@dataclass(frozen=True, slots=True)
class RewriteIndex:
    """The index of the shards is written from their headers, as `file`, whether there was one or not."""

    file: str


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """`__metadata__` in the header of the weight file `file` holds these texts."""

    file: str
    metadata: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OmitFile:
    """The file `name` of the folder is not copied."""

    name: str


@dataclass(frozen=True, slots=True)
class ConvertPickle:
    """The tensors of the PyTorch file `file` are written as the safetensors file `to`."""

    file: str
    to: str


Edit = (
    RenameTensor
    | DropTensor
    | ReplaceTensor
    | CastTensor
    | AddTensor
    | CopyTensor
    | SetConfig
    | RemoveConfig
    | RewriteJson
    | RewriteIndex
    | SetMetadata
    | OmitFile
    | ConvertPickle
)


def aspects(edit: Edit) -> tuple[Aspect, ...]:
    """What `edit` lays its hand on. Two different edits with an aspect in common cannot both be made."""
    match edit:
        case RenameTensor(name, to):
            return ("name", name), ("new", to)
        case DropTensor(name, file):
            if file is not None:
                return (("copy", f"{file}/{name}"),)
            return ("name", name), ("data", name)
        case ReplaceTensor() | CastTensor():
            return (("data", edit.name),)
        case AddTensor() | CopyTensor():
            return ("new", edit.name), ("data", edit.name)
        case SetConfig() | RemoveConfig():
            return (("config", f"{edit.file}/{edit.key}"),)
        case RewriteJson(file) | RewriteIndex(file):
            return (("text", file),)
        case SetMetadata(file, _):
            return (("metadata", file),)
        case OmitFile(name):
            return (("file", name),)
        case ConvertPickle(file, to):
            return ("file", file), ("new file", to)


def conflict(first: Edit, second: Edit) -> Aspect | None:
    """The aspect on which two edits disagree; None when both can be made, or when they are the same edit."""
    # 1 and True are equal in Python and not in a config.
    if first == second and repr(first) == repr(second):
        return None
    ours, theirs = aspects(first), aspects(second)
    shared = next((a for a in ours if a in theirs), None)
    if shared is not None:
        return shared
    for kind, key in ours:
        for other, name in theirs:
            if kind == other == "config" and (key.startswith(f"{name}.") or name.startswith(f"{key}.")):
                return kind, min(key, name, key=len)
    return None
