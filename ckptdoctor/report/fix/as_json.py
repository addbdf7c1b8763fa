"""The outcome of `fix` as JSON, an interface: `rules/schema/fix.schema.json` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ckptdoctor.claims import of_plans
from ckptdoctor.findings import Severity
from ckptdoctor.jsontext import dumps
from ckptdoctor.repair.receipt import edit_data
from ckptdoctor.report.plan.as_json import plan_data
from ckptdoctor.report.scan.json_report import finding_data

if TYPE_CHECKING:
    from ckptdoctor.repair.fixing import Outcome
    from ckptdoctor.repair.undo import Restored

__all__ = ["fix_text", "serving_after", "undo_text"]

SCHEMA_VERSION = 1


def serving_after(outcome: Outcome) -> tuple[Mapping[str, Any], ...]:
    """The plans of the named releases for what there is in the end, as a scan of it shows them."""
    return of_plans([plan_data(plan) for plan in outcome.plan.after.plans], outcome.remaining)


def fix_text(outcome: Outcome, out: str | None) -> str:
    """The document that `fix --format json` prints."""
    from ckptdoctor.version import __version__

    plan, assembly, written = outcome.plan, outcome.assembly, outcome.written
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "path": outcome.path,
        "out": out,
        "dry_run": outcome.dry_run,
        "written": written is not None,
        "caveats": list(outcome.caveats),
        "serving": [
            {name: plan[name] for name in ("engine", "version", "outcome", "reasons")}
            for plan in serving_after(outcome)
        ],
        "repairs": [
            {
                "treatment": step.treatment, "subject": step.subject, "rules": list(step.rules), "safety": step.safety,
                "assumption": step.assumption, "summary": step.summary,
                "edits": [edit_data(edit) for edit in step.edits],
                "changes": [asdict(change) for change in outcome.changes[number]],
            }
            for number, step in enumerate(plan.steps)
        ],
        "unfixed": [{"why": item.why, "finding": finding_data(item.finding)} for item in plan.unfixed],
        "files": [
            {"name": file.name, "size": file.size, "source": file.source, "changed": not file.unchanged}
            for file in (assembly.files if assembly is not None else ())
        ],
        "left_out": [{"name": name, "why": why} for name, why in outcome.tree.left_out],
        "bytes": {
            "total": assembly.size if assembly is not None else 0,
            "new": assembly.fresh if assembly is not None else 0,
            "reflinked": written.copied.reflinked if written is not None else 0,
            "copied": written.copied.kernel + written.copied.buffered if written is not None else 0,
        },
        "remaining": {s.value: sum(f.severity is s for f in outcome.remaining) for s in Severity},
    }  # fmt: skip
    return dumps(data)


def undo_text(restored: Restored) -> str:
    """The document that `fix --undo --format json` prints."""
    return dumps({"schema_version": SCHEMA_VERSION, **asdict(restored)})
