"""The receipt of a copy: what was done, what it was made from, and how to go back.

`rules/schema/receipt.schema.json` describes it. `treatments` stands before the long parts, so that a scan needs to read
no further.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.jsontext import dumps
from ckptdoctor.publish.digests import Compared, VerificationError
from ckptdoctor.publish.tree import Tree
from ckptdoctor.repair.assemble import Assembly
from ckptdoctor.repair.edits import AddTensor, CastTensor, CopyTensor, Edit, ReplaceTensor
from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.plan.planner import RepairPlan
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.state import State
from ckptdoctor.repair.way_back import way_back
from ckptdoctor.resources import rules_dir
from ckptdoctor.serving import contracts
from ckptdoctor.text import show
from ckptdoctor.version import __version__

__all__ = ["SCHEMA_VERSION", "edit_data", "receipt_bytes"]

SCHEMA_VERSION = 1
_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class _Side:
    """A tensor on one side of a repair, for the receipt."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str | None


def receipt_bytes(
    source: Checkpoint, plan: RepairPlan, tree: Tree, assembly: Assembly, compared: Compared, staged: Path
) -> tuple[bytes, bool]:
    """The receipt as the text of its file, and whether the repair can be undone with it.

    `staged` is the folder in which the copy lies, complete but for the receipt.
    """
    digests = {digest.path: digest.sha256 for digest in compared.sources}
    by_name = {digest.name: digest for digest in compared.files}
    back = way_back(tree, assembly, digests)
    data = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "treatments": [*_earlier(source), *(_treatment(step) for step in plan.steps)],
        "knowledge": {
            "rules_sha256": _rules_digest(),
            "contracts": {name: contract.newest for name, contract in sorted(contracts().items())},
        },
        "source": {
            "path": source.path,
            "files": [
                {"name": e.name, "size": e.status.st_size, "sha256": digests.get(e.path)} for e in tree.entries
            ],
            "left_out": [{"name": name, "why": why} for name, why in tree.left_out],
        },
        "files": [
            {
                "name": f.name, "size": f.size, "sha256": by_name[f.name].sha256, "source": f.source,
                "changed": not f.unchanged,
            }
            for f in assembly.files
        ],
        "tensors": list(_tensors(source, plan.state, tree, assembly, staged)),
        "undo": back,
    }  # fmt: skip
    return dumps(data).encode(), bool(back["reversible"])


def edit_data(edit: Edit) -> dict[str, Any]:
    """An edit as plain data: its kind and its fields; of values, only how many bytes there are."""
    values = {k: v for k, v in asdict(edit).items() if k not in ("data", "source", "rows", "path")}
    if isinstance(edit, (ReplaceTensor, CastTensor, AddTensor)):
        values["bytes"] = None if edit.data is None else len(edit.data)
    if isinstance(edit, CopyTensor):
        values |= {"from": str(edit.path), "tensor": edit.source.name}
        values["rows"] = None if edit.rows is None else len(edit.rows)
    return {"edit": type(edit).__name__, **values}


def _treatment(step: Proposal) -> dict[str, Any]:
    return {
        "treatment": step.treatment,
        "subject": step.subject,
        "rules": list(step.rules),
        "safety": step.safety,
        "assumption": step.assumption,
        "summary": step.summary,
        "edits": [edit_data(edit) for edit in step.edits],
    }


def _earlier(source: Checkpoint) -> list[Any]:
    """The treatments of the receipt that the source itself carries: they have been made on this copy too."""
    document = source.json_head(RECEIPT_NAME, frozenset({"treatments"}))
    rows: Any = document.object.get("treatments") if document is not None else None
    return list(rows) if isinstance(rows, list) else []


def _rules_digest() -> str:
    """One SHA-256 over every rule and contract file, so that a receipt says by which knowledge it was made."""
    total = hashlib.sha256()
    root = rules_dir()
    for path in sorted(root.rglob("*.yaml")):
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def _tensors(
    source: Checkpoint, state: State, tree: Tree, assembly: Assembly, staged: Path
) -> Iterator[dict[str, Any]]:
    """Every tensor with another name or other values, and those that are gone or new, with both sides."""
    written = {(info.file, info.name): info for infos in assembly.tensors.values() for info in infos}
    kept: set[str] = set()
    for name, info in state.checkpoint.tensors.items():
        copied = written.get((info.file, name))
        old = source.tensors.get(info.stored_as)
        new = name in state.new
        if old is not None and not (new and isinstance(state.new[name], AddTensor)):
            kept.add(old.name)
        if copied is None or (old is not None and not new and old.name == name):
            continue
        place = staged / info.file
        if new:
            change = "values" if old is not None else "added"
            before = None if old is None else _old_side(tree, old)
            yield _row(name, change, None if old is None else old.name, before, _new_side(place, copied))
        else:
            assert old is not None
            yield _row(name, "renamed", old.name, _Side(old.dtype, old.shape, None), _Side(old.dtype, old.shape, None))
    for name, old in source.tensors.items():
        if name not in kept:
            yield _row(None, "dropped", name, _old_side(tree, old), None)
    for file, name in sorted(state.second_copies):
        yield {"name": None, "was": name, "change": "second copy dropped", "file": file, "before": None, "after": None}


def _row(name: str | None, change: str, was: str | None, before: _Side | None, after: _Side | None) -> dict[str, Any]:
    return {"name": name, "was": was, "change": change, "before": before, "after": after}


def _old_side(tree: Tree, info: TensorInfo) -> _Side:
    entry = tree.entry(info.file)
    if entry is None or info.start is None:
        return _Side(info.dtype, info.shape, None)
    with entry.open() as stream:
        return _side(info, stream)


def _new_side(place: Path, info: TensorInfo) -> _Side:
    try:
        with place.open("rb") as stream:
            return _side(info, stream)
    except OSError as error:
        raise VerificationError(
            f"{show(info.file)}: the copy cannot be read again after it was written ({show(error.strerror or error)})"
        ) from None


def _side(info: TensorInfo, stream: BinaryIO) -> _Side:
    """A tensor with the SHA-256 of its bytes; None for one inside a PyTorch file."""
    if info.start is None or info.end is None:
        return _Side(info.dtype, info.shape, None)
    total = hashlib.sha256()
    at = info.start
    while at < info.end and (part := os.pread(stream.fileno(), min(_CHUNK, info.end - at), at)):
        total.update(part)
        at += len(part)
    return _Side(info.dtype, info.shape, total.hexdigest())
