"""The report of `fix` for a person: what is repaired and how, what is written, and what stays as it is and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckptdoctor.findings import Severity
from ckptdoctor.report.fix.as_json import serving_after
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.wording import OUTCOME_STYLE, PATH_LIMIT, SERVED, place
from ckptdoctor.summary import byte_count, title
from ckptdoctor.text import listing, plural, show

if TYPE_CHECKING:
    from ckptdoctor.repair.changes import Change
    from ckptdoctor.repair.fixing import Outcome
    from ckptdoctor.repair.plan.case import Proposal
    from ckptdoctor.repair.plan.planner import Unfixed
    from ckptdoctor.repair.undo import Restored

__all__ = ["fix_lines", "undo_lines"]

_GROUP, _ITEM, _BODY = 2, 4, 6


def fix_lines(outcome: Outcome, out: str | None, target: str | None) -> Iterator[Line]:
    """The whole report. `out` and `target` are as the person gave them."""
    plan = outcome.plan
    for caveat in outcome.caveats:
        yield line(Segment(caveat, "warning"), hang=2)
        yield BLANK
    yield line(Segment(show(outcome.path, PATH_LIMIT), "path"), f": {title(plan.before.facts)}", hang=_GROUP)
    yield BLANK
    if plan.steps:
        would = "would be made" if outcome.dry_run else "made"
        yield line(Segment(f"{plural(len(plan.steps), 'repair')} {would}", "fix"), indent=_GROUP)
        for number, step in enumerate(plan.steps):
            yield BLANK
            yield from _step(outcome, number, step)
    else:
        bad = any(f.severity is not Severity.NOTE for f in outcome.remaining)
        yield line("Nothing is repaired." if bad else "Nothing to repair.", indent=_GROUP)
    yield from _unfixed(plan.unfixed)
    yield from _serving(outcome)
    yield BLANK
    yield from _written(outcome, out)
    yield from _next(outcome, out, target)


def _step(outcome: Outcome, number: int, step: Proposal) -> Iterator[Line]:
    rules = listing(step.rules, 6)
    yield line(Segment(step.treatment, "fix"), Segment(f"  {rules}  ({step.safety})", "quiet"), indent=_ITEM, hang=2)
    yield line(step.summary, indent=_BODY)
    if step.assumption is not None:
        yield line(Segment("assumes:", "warning"), f" {step.assumption}", indent=_BODY, hang=2)
    for change in outcome.changes[number]:
        yield from _change(change)


def _change(change: Change) -> Iterator[Line]:
    if change.before is None and change.after is None:
        yield line(change.what, indent=_BODY, hang=2)
        return
    if change.what:
        yield line(Segment(change.what, "label"), indent=_BODY, hang=2)
    if change.before is not None:
        yield line(Segment(f"- {change.before}", "error"), indent=_BODY, hang=2)
    if change.after is not None:
        yield line(Segment(f"+ {change.after}", "fix"), indent=_BODY, hang=2)


def _unfixed(items: tuple[Unfixed, ...]) -> Iterator[Line]:
    told = [i for i in items if i.treated or i.finding.severity is not Severity.NOTE]
    if told:
        yield BLANK
        yield line("stays as it is", indent=_GROUP)
    for item in sorted(told, key=lambda i: -i.finding.severity.rank):
        finding = item.finding
        where = place(finding.location)
        yield BLANK
        yield line(
            Segment(finding.rule, finding.severity.value),
            f" {finding.name}",
            Segment(f"  {where}" if where else "", "quiet"),
            indent=_ITEM,
            hang=2,
        )
        if finding.severity is not Severity.NOTE:
            yield line(finding.message, indent=_BODY)
        yield line(Segment("why:" if item.treated else "next:", "label"), f" {item.why}", indent=_BODY, hang=2)
    if len(told) < len(items):
        verb = "asks" if len(items) - len(told) == 1 else "ask"
        yield BLANK
        yield line(f"{plural(len(items) - len(told), 'note')} of the scan {verb} for no repair", indent=_GROUP)


def _serving(outcome: Outcome) -> Iterator[Line]:
    """How the named releases serve what there is in the end: a repair does not say that they do."""
    plans = serving_after(outcome)
    if not plans:
        return
    yield BLANK
    yield line("serving, repaired" if outcome.plan.steps else "serving", indent=_GROUP)
    for plan in plans:
        why = next(iter(plan["reasons"]), "")
        said = Segment(SERVED[plan["outcome"]], OUTCOME_STYLE[plan["outcome"]])
        yield line(f"{plan['engine']} {plan['version']}: ", said, f" ({why})" if why else "", indent=_ITEM, hang=2)


def _written(outcome: Outcome, out: str | None) -> Iterator[Line]:
    assembly = outcome.assembly
    if assembly is None:
        yield line("nothing written", indent=_GROUP)
        return
    size, fresh = byte_count(assembly.size), byte_count(assembly.fresh)
    new = f"{plural(len(assembly.files), 'file')}, {size}, of which {fresh} are new"
    where = show(out, PATH_LIMIT) if out is not None else "the copy"
    if outcome.dry_run:
        yield line(f"would write {where}: {new}; the source is only read", indent=_GROUP, hang=2)
    else:
        yield line(Segment("wrote ", "fix"), Segment(where, "path"), f": {new}", indent=_GROUP, hang=2)
        yield line(
            "verified: scanned again, and all other bytes compared with the source; see ckptdoctor-receipt.json in it",
            indent=_GROUP,
            hang=2,
        )
    for name, why in outcome.tree.left_out:
        yield line(f"not copied: {show(name)} ({why})", indent=_GROUP, hang=2)


def _next(outcome: Outcome, out: str | None, target: str | None) -> Iterator[Line]:
    given = f" --target {shlex.quote(target)}" if target is not None else ""
    path = shlex.quote(outcome.path)
    commands: list[str] = []
    if outcome.out is not None and out is not None:
        commands.append(f"ckptdoctor scan {shlex.quote(out)}{given}")
        if outcome.reversible:
            commands.append(f"ckptdoctor fix --undo {shlex.quote(out)} --out OLD")
    elif outcome.dry_run and outcome.plan.steps:
        commands.append(f"ckptdoctor fix {path} --out {shlex.quote(out) if out is not None else 'NEW'}{given}")
    if commands:
        yield BLANK
        yield line("next commands", indent=_GROUP)
        for command in commands:
            yield line(Segment(show(command, PATH_LIMIT), "command"), indent=_ITEM, wrap=False)


def undo_lines(restored: Restored) -> Iterator[Line]:
    """What `fix --undo` wrote."""
    yield line(
        Segment("wrote ", "fix"),
        Segment(show(restored.out, PATH_LIMIT), "path"),
        f": {plural(restored.files, 'file')}, {byte_count(restored.size)}, as they were before",
        hang=2,
    )
    if restored.unproven:
        yield line(
            f"{listing(restored.unproven, 6)} came back with the right size;"
            " the receipt has no SHA-256 of files so large",
            indent=_GROUP,
            hang=2,
        )
    else:
        yield line("every file has the SHA-256 that the receipt gives", indent=_GROUP)
