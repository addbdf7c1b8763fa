"""What a step changes, said for a person: names, values of config fields, first entries of maps, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ckptdoctor.repair.edits import (
    AddTensor,
    CastTensor,
    ConvertPickle,
    CopyTensor,
    DropTensor,
    Edit,
    OmitFile,
    RemoveConfig,
    RenameTensor,
    ReplaceTensor,
    RewriteIndex,
    RewriteJson,
    SetConfig,
    SetMetadata,
)
from ckptdoctor.repair.state import State
from ckptdoctor.text import plural, show
from ckptdoctor.unknown import Unknown

__all__ = ["Change", "changes"]

SHOWN = 4
"""Edits of a kind that are shown one by one."""

_ENTRIES = 8
_VALUE = 72


@dataclass(frozen=True)
class Change:
    """One line of a diff: `what` stands there as `before` and is to be `after`. None: it is not there."""

    what: str
    before: str | None = None
    after: str | None = None


def changes(base: State, edits: Sequence[Edit]) -> Iterator[Change]:
    """The changes of `edits`, made on the draft `base`; of many alike the first few and how many more there are."""
    renames = _of(edits, RenameTensor)
    for rename in renames[:SHOWN]:
        yield Change("", show(rename.name), show(rename.to))
    yield from _more(len(renames), "rename")
    yield from _values(base, [e for e in edits if isinstance(e, (ReplaceTensor, CastTensor))])
    drops = _of(edits, DropTensor)
    for drop in drops[:SHOWN]:
        yield Change("", show(drop.name) + (f" in {show(drop.file)}" if drop.file else ""), None)
    yield from _more(len(drops), "tensor left out", "tensors left out")
    for add in _of(edits, AddTensor):
        filled = "zeros" if add.data is None else "see d2t" if add.name.endswith("t2d") else "values"
        yield Change("", None, f"{show(add.name)}  {add.dtype} {list(add.shape)}, {filled}")
    for copy in _of(edits, CopyTensor):
        rows = "" if copy.rows is None else f", {plural(len(copy.rows), 'row')} in the order of d2t"
        yield Change("", None, f"{show(copy.name)}  from {show(copy.source.name)} of the target{rows}")
    yield from _config(base, edits)
    yield from _files(edits)


_E = TypeVar("_E")


def _of(edits: Sequence[Edit], kind: type[_E]) -> list[_E]:
    return [edit for edit in edits if isinstance(edit, kind)]


def _more(count: int, one: str, many: str | None = None) -> Iterator[Change]:
    if count > SHOWN:
        yield Change(f"and {plural(count - SHOWN, f'more {one}', f'more {many}' if many else None)} like these")


def _values(base: State, edits: Sequence[ReplaceTensor | CastTensor]) -> Iterator[Change]:
    after = base.after(edits).checkpoint if edits else base.checkpoint
    for edit in edits:
        old, new = base.checkpoint.tensors[edit.name], after.tensors[edit.name]
        kinds = f"{old.dtype} {list(old.shape)}", f"{new.dtype} {list(new.shape)}"
        yield Change(
            show(edit.name), f"{kinds[0]}  {_first(base.checkpoint.integers(edit.name))}",
            f"{kinds[1]}  {_first(after.integers(edit.name))}",
        )  # fmt: skip


def _first(values: Any) -> str:
    if isinstance(values, Unknown):
        return "…"
    text = " ".join(str(int(value)) for value in values[:_ENTRIES])
    return f"{text} …" if len(values) > _ENTRIES else text


def _config(base: State, edits: Sequence[Edit]) -> Iterator[Change]:
    for edit in edits:
        if isinstance(edit, (SetConfig, RemoveConfig)):
            old = _at(base.value(edit.file), edit.key)
            new = _text(edit.value) if isinstance(edit, SetConfig) else None
            yield Change(f"{show(edit.file)}  {show(edit.key)}", old, new)


def _at(value: Any, key: str) -> str | None:
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return _text(value)


def _text(value: Any) -> str:
    return show(json.dumps(value, ensure_ascii=True, default=str), _VALUE)


def _files(edits: Sequence[Edit]) -> Iterator[Change]:
    for edit in edits:
        match edit:
            case RewriteJson(file):
                yield Change(f"{show(file)}  is written again with the values that engines read")
            case RewriteIndex(file):
                yield Change(f"{show(file)}  is written from the headers of the weight files")
            case SetMetadata(file, _):
                yield Change(f"{show(file)}  __metadata__ of the header becomes texts")
            case OmitFile(name):
                yield Change("", f"{show(name)} (file)", None)
            case ConvertPickle(file, to):
                yield Change("", f"{show(file)} (file)", f"{show(to)} (file)")
