"""The report for a person: what is wrong, what they would see, what to do next, and what nobody looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ckptdoctor.findings import Report, Severity
from ckptdoctor.report.scan.view import CheckpointView, FindingView, ReportView, report_view
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.text import listing, plural, show

__all__ = ["render", "report_lines"]

_GROUP, _ITEM, _BODY = 2, 4, 6
_TOLD = ("on", "you would see", "next", "not fixed", "fix available")


def render(report: Report, surface: Surface) -> str:
    """The report as text for a terminal or a file."""
    return render_lines(report_lines(report), surface)


def report_lines(report: Report) -> Iterator[Line]:
    """All lines of the report, before wrapping."""
    for number, part in enumerate(part for part in _parts(report_view(report)) if part):
        if number:
            yield BLANK
        yield from part


def _parts(view: ReportView) -> Iterator[list[Line]]:
    yield [line(Segment(caveat, "warning"), hang=2) for caveat in view.caveats]
    for checkpoint in view.checkpoints:
        yield list(_block(checkpoint))
    yield [
        line(Segment("could not examine", "error"), " ", Segment(path, "path"), f": {reason}", hang=2)
        for path, reason in view.failed
    ]
    judged = [line("judged by ", Segment(view.policy, "path"), hang=2)] if view.policy else []
    yield [*judged, *(line(show(remark, 400), hang=2) for remark in view.remarks)]
    yield [line(Segment(view.total, "path"), hang=2)] if view.total else []


def _block(checkpoint: CheckpointView) -> Iterator[Line]:
    title = f": {checkpoint.title}" if checkpoint.title else ""
    yield line(Segment(checkpoint.path, "path"), title, hang=_GROUP)
    for severity in Severity:
        findings = [finding for finding in checkpoint.findings if finding.severity is severity]
        if findings:
            every = sum(finding.severity is severity for finding in checkpoint.examination.findings)
            yield from _heading(Segment(plural(every, severity.value), severity.value))
        for finding in findings:
            yield BLANK
            yield from _finding(finding)
            if finding.more:
                yield BLANK
                yield line(Segment(finding.more, "quiet"), indent=_ITEM, hang=2)
    if not checkpoint.findings:
        yield BLANK
        yield line(checkpoint.verdict, indent=_GROUP, hang=2)
    yield from _serving(checkpoint)
    if checkpoint.unjudged:
        yield from _heading("not judged")
    for group in checkpoint.unjudged:
        yield line(group.sentence, Segment(f" ({listing(group.rules)})", "quiet"), indent=_ITEM, hang=2)
    if checkpoint.faults:
        yield from _heading(Segment("faults of ckptdoctor", "warning"))
    for fault in checkpoint.faults:
        yield line(fault, indent=_ITEM, hang=2)
    if checkpoint.aside:
        yield from _heading("set aside")
    told: Counter[tuple[str, str, str]] = Counter()
    for item in checkpoint.aside:
        told[item.rule, item.reason, item.until] += 1 + item.more
    for (rule, reason, until), count in told.items():
        often = f" ({count} times)" if count > 1 else ""
        yield line(f"{rule}{often}: {show(reason, 400)}{until}", indent=_ITEM, hang=2)
    yield BLANK
    yield line(Segment(checkpoint.counts, "path"), indent=_GROUP, hang=2)
    if checkpoint.commands:
        yield from _heading("next commands")
    for command in checkpoint.commands:
        yield line(Segment(command, "command"), indent=_ITEM, wrap=False)


def _heading(text: Segment | str) -> Iterator[Line]:
    yield BLANK
    yield line(text, indent=_GROUP)


def _finding(finding: FindingView) -> Iterator[Line]:
    rule, _, name = finding.rule.partition(" ")
    yield line(
        Segment(rule, finding.severity.value),
        f" {name}",
        Segment(f"  {finding.where}" if finding.where else "", "quiet"),
        f"  ({finding.unsure})" if finding.unsure else "",
        indent=_ITEM,
        hang=_BODY - _ITEM,
    )
    yield line(finding.message, indent=_BODY)
    is_note = finding.severity is Severity.NOTE
    for label, words in finding.told:
        # A note asks for nothing urgent: its effect is left to `explain`.
        if label not in _TOLD or (is_note and label == "you would see"):
            continue
        parts: tuple[Segment | str, ...] = (words,)
        if label == "fix available":
            # A note is left alone by a plain fix.
            how = f", with --select {rule}" if is_note else ""
            parts = (Segment(words, "fix"), Segment(f" ({finding.safety}{how})", "quiet"))
        yield line(Segment(f"{label}:", "label"), " ", *parts, indent=_BODY, hang=2)


def _serving(checkpoint: CheckpointView) -> Iterator[Line]:
    """How engines serve the files: the releases that were asked for, or all known ones of the two main engines."""
    if checkpoint.serving:
        yield from _heading(checkpoint.serving_title)
    for release, outcome, style, reason in checkpoint.serving:
        why = f" ({reason})" if reason else ""
        yield line(f"{release}: ", Segment(outcome, style), why, indent=_ITEM, hang=2)
    if checkpoint.serving_remark:
        yield line(checkpoint.serving_remark, indent=_ITEM, hang=2)
