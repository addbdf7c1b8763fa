"""A row: what an audit keeps of one checkpoint, as one line of JSON (rules/schema/audit.schema.json)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ckptdoctor.audit.pairing import Model, Models, Pairing, Wants
from ckptdoctor.audit.places import Place
from ckptdoctor.findings import Severity
from ckptdoctor.jsontext import as_plain
from ckptdoctor.version import __version__

__all__ = ["NOT_EXAMINED", "Row", "as_line", "is_row", "model_in", "row_for", "row_id", "still_paired"]

Row: TypeAlias = Mapping[str, Any]

NOT_EXAMINED = ("unreadable", "timed_out", "crashed", "failed")
"""Outcomes of checkpoints of which nothing is known."""

SCHEMA_VERSION = 1

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "id": str, "key": str, "path": str, "outcome": str, "reason": (str, type(None)), "title": (str, type(None)),
    "marks": list, "remarks": list,
}  # fmt: skip
_FINDING = ("rule", "name", "severity", "message")
_SEVERITIES = frozenset(severity.value for severity in Severity)


def row_id(place: Place, context: str) -> str:
    """32 hex digits of all that a row depends on: the place, its files, and the `context` of the audit."""
    text = json.dumps([place.key, place.mark, context])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def row_for(
    place: Place,
    context: str,
    outcome: str,
    started: float | None = None,
    *,
    reason: str | None = None,
    trace: str | None = None,
    title: str | None = None,
    wants: Wants | None = None,
    pairing: Pairing | None = None,
    report: Mapping[str, Any] | None = None,
    marks: Sequence[str] = (),
    remarks: Sequence[str] = (),
    model: Model | None = None,
) -> Row:
    """The row of `place`. `outcome` is `scanned`, `model` (an ordinary model), `nothing` (no weights) or one of
    `NOT_EXAMINED`, with the `reason`. `started` is when the work on it began (`time.monotonic`)."""
    return {
        "id": row_id(place, context),  # stands first: a state is read by the beginnings of its lines
        "schema_version": SCHEMA_VERSION,
        "kind": "checkpoint",
        "key": place.key,
        "path": place.path,
        "outcome": outcome,
        "reason": reason,
        "title": title,
        "seconds": 0.0 if started is None else round(time.monotonic() - started, 3),
        "files": place.mark,
        "context": context,
        "tool": __version__,
        "target": None if pairing is None else {**pairing.as_data(), "wants": wants.as_data() if wants else None},
        "report": report,
        "marks": list(marks),
        "remarks": list(remarks),
        **({} if model is None else {"model": as_plain(model)}),
        **({} if trace is None else {"trace": trace}),
    }


def as_line(row: Row) -> bytes:
    """The row as a line of JSON, in ASCII alone."""
    return json.dumps(row, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def is_row(value: Any) -> bool:
    """Whether `value`, read from a file, is a row as we write them."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in _KINDS.items()):
        return False
    if value["outcome"] != "scanned":
        return value["outcome"] in ("model", "nothing", *NOT_EXAMINED)
    target, report = value.get("target"), value.get("report")
    findings = report.get("findings") if isinstance(report, dict) else None
    return (
        isinstance(target, dict)
        and isinstance(target.get("why"), str)
        and isinstance(target.get("path"), (str, type(None)))
        and isinstance(findings, list)
        and all(isinstance(f, dict) and all(isinstance(f.get(n), str) for n in _FINDING) for f in findings)
        and all(f["severity"] in _SEVERITIES for f in findings)
    )


def model_in(row: Row) -> Model | None:
    """The model that a row tells of; None where it tells of none."""
    data = row.get("model")
    try:
        return Model(**{**data, "names": tuple(data["names"])}) if isinstance(data, dict) else None
    except (TypeError, KeyError):
        return None


def still_paired(row: Row, models: Models) -> bool:
    """Whether the draft of `row` would be scanned with the same target again."""
    told = row.get("target")
    if not isinstance(told, dict) or told.get("source") == "given":
        return True  # a given target is part of the context
    wants = told.get("wants")
    if not isinstance(wants, dict):
        return False
    now = models.target_of(str(row.get("key")), Wants.from_data(wants))
    if told.get("source") == "hub":
        return now.model is None
    return (now.path, now.mark) == (told.get("path"), told.get("mark"))
