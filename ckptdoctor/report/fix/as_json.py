"""The outcome of `fix` as JSON, an interface: `rules/schema/fix.schema.json` is written from these shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from ckptdoctor.claims import of_plans
from ckptdoctor.findings import Severity
from ckptdoctor.jsontext import dumps
from ckptdoctor.repair.receipt import edit_data
from ckptdoctor.report.plan.as_json import Outcome, plan_data
from ckptdoctor.report.scan.document import Finding, Levels
from ckptdoctor.shapes import Count, Document, Name, Shape, encode, item

if TYPE_CHECKING:
    from ckptdoctor.repair import fixing
    from ckptdoctor.repair.undo import Restored

__all__ = ["Fix", "fix_text", "serving_after", "undo_text"]


class Served(Shape):
    engine: str
    version: str
    outcome: Outcome
    reasons: list[str]


class Change(Shape):
    what: str
    before: str | None
    after: str | None


class Edit(Shape, further=True):
    edit: str = item("The kind of edit, such as RenameTensor.")


class Repair(Shape):
    treatment: Name
    subject: str = item("What it was made on: a treatment is made once on a subject.")
    rules: list[str] = item("The rules whose findings it answers.")
    safety: Literal["safe", "unsafe"]
    assumption: str | None = item("What an unsafe repair takes for granted; null for a safe one.")
    summary: str
    edits: list[Edit] = item(at=lambda step: [edit_data(edit) for edit in step.edits])
    changes: list[Change] = item(
        "The diff for people: what stands there before and after; null where there is nothing."
    )


class Unfixed(Shape):
    why: str
    finding: Finding = item("As in the report of scan.")


class File(Shape):
    name: str
    size: Count
    source: str | None
    changed: bool = item(at=lambda file: not file.unchanged)


class LeftOut(Shape):
    name: str = item(at=0)
    why: str = item(at=1)


class Bytes(Shape):
    total: Count = item("Of the copy, without its receipt.")
    new: Count = item("Of the copy, that are not bytes of the source.")
    reflinked: Count = item("That share their blocks with the source.")
    copied: Count


def _bytes(outcome: fixing.Outcome) -> dict[str, int]:
    assembly = outcome.assembly
    copied = outcome.written.copied if outcome.written is not None else None
    return {
        "total": assembly.size if assembly is not None else 0,
        "new": assembly.fresh if assembly is not None else 0,
        "reflinked": copied.reflinked if copied is not None else 0,
        "copied": copied.kernel + copied.buffered if copied is not None else 0,
    }


def serving_after(outcome: fixing.Outcome) -> tuple[Mapping[str, Any], ...]:
    """The plans of the named releases for what there is in the end, as a scan of it shows them."""
    return of_plans([plan_data(plan) for plan in outcome.plan.after.plans], outcome.remaining)


class Fix(Document, late=("caveats", "serving")):
    """What `ckptdoctor fix --format json` prints: the plan of the repair and its outcome."""

    path: str = item("The checkpoint as it was named.")
    out: str | None = item("The new folder as it was named; null in a dry run without one.")
    dry_run: bool
    written: bool = item(
        "Whether a copy was written. False too when there is nothing to repair.",
        at=lambda outcome: outcome.written is not None,
    )
    caveats: list[str] = item("What has to be said first: a release was asked for that nobody has read.")
    serving: list[Served] = item(
        "How the named releases serve what there is in the end: the copy, or the source where nothing is repaired.",
        at=lambda outcome: [
            {name: plan[name] for name in ("engine", "version", "outcome", "reasons")}
            for plan in serving_after(outcome)
        ],
    )
    repairs: list[Repair] = item(
        "The treatments in their order, each on what the ones before it left.",
        at=lambda outcome: [
            encode(Repair, step, changes=made) for step, made in zip(outcome.plan.steps, outcome.changes, strict=True)
        ],
    )
    unfixed: list[Unfixed] = item("The findings that stay, and why.", at="plan.unfixed")
    files: list[File] = item(
        "The files of the copy; empty when there is nothing to repair.",
        at=lambda outcome: outcome.assembly.files if outcome.assembly is not None else (),
    )
    left_out: list[LeftOut] = item("What of the folder is not copied.", at="tree.left_out")
    bytes: Bytes = item(at=_bytes)
    remaining: Levels = item(
        "The findings of a scan of the copy (of the source, when nothing is repaired).",
        at=lambda outcome: {s.value: sum(f.severity is s for f in outcome.remaining) for s in Severity},
    )


def fix_text(outcome: fixing.Outcome, out: str | None) -> str:
    """The document that `fix --format json` prints."""
    return dumps(encode(Fix, outcome, out=out))


def undo_text(restored: Restored) -> str:
    """The document that `fix --undo --format json` prints."""
    return dumps({"schema_version": 1, **asdict(restored)})
