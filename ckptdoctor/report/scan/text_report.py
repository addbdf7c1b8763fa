"""The report for a person: what is wrong, what they would see, what to do next, and what nobody looked at."""

from __future__ import annotations

from collections.abc import Iterator

from ckptdoctor.findings import Confidence, Examination, Finding, Report, Severity
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import (
    OUTCOME_STYLE,
    PATH_LIMIT,
    SERVED,
    beside_serving,
    counts,
    failure,
    nothing_found,
    place,
    serving_rows,
    total,
    unjudged,
)
from ckptdoctor.text import listing, plural, show

__all__ = ["render", "report_lines"]

_GROUP, _ITEM, _BODY = 2, 4, 6


def render(report: Report, surface: Surface) -> str:
    """The report as text for a terminal or a file."""
    return render_lines(report_lines(report), surface)


def report_lines(report: Report) -> Iterator[Line]:
    """All lines of the report, before wrapping."""
    parts = [[line(Segment(caveat, "warning"), hang=2) for caveat in report.caveats]] if report.caveats else []
    parts += [list(_block(e)) for e in report.examinations]
    if report.failed:
        parts.append(list(_failed(report)))
    if report.remarks or report.policy is not None:
        parts.append(list(_policy(report)))
    if len(report.examinations) + len(report.failed) > 1:
        parts.append([line(Segment(total(report), "path"), hang=2)])
    for number, part in enumerate(parts):
        if number:
            yield BLANK
        yield from part


def _block(examination: Examination) -> Iterator[Line]:
    heading = Segment(show(examination.path, PATH_LIMIT), "path")
    yield line(heading, f": {examination.title}" if examination.title else "", hang=_GROUP)
    for severity in Severity:
        findings = [f for f in examination.findings if f.severity is severity]
        if findings:
            yield BLANK
            yield line(Segment(plural(len(findings), severity.value), severity.value), indent=_GROUP)
        for finding in findings:
            yield BLANK
            yield from _finding(finding)
    if not examination.findings:
        yield BLANK
        yield line(nothing_found(examination), indent=_GROUP, hang=2)
    yield from _serving(examination)
    yield from _not_judged(examination)
    yield from _set_aside(examination)
    yield BLANK
    yield line(Segment(counts(examination), "path"), indent=_GROUP, hang=2)
    if examination.next_commands:
        yield BLANK
        yield line("next commands", indent=_GROUP)
        for command in examination.next_commands:
            yield line(Segment(command, "command"), indent=_ITEM, wrap=False)


def _finding(finding: Finding) -> Iterator[Line]:
    where = place(finding.location)
    unsure = "" if finding.confidence is Confidence.CERTAIN else f"  ({finding.confidence.value})"
    yield line(
        Segment(finding.rule, finding.severity.value),
        f" {finding.name}",
        Segment(f"  {where}" if where else "", "quiet"),
        unsure,
        indent=_ITEM,
        hang=_BODY - _ITEM,
    )
    yield line(finding.message, indent=_BODY)
    if finding.engines:
        yield _labelled("on", listing(finding.engines, 6))
    # A note asks for nothing urgent: its effect is left to `explain`.
    if finding.effect and finding.severity is not Severity.NOTE:
        yield _labelled("you would see", finding.effect)
    if finding.advice:
        yield _labelled("next", finding.advice)
    if finding.fix is not None and finding.fix.refused is not None:
        yield _labelled("not fixed", finding.fix.refused)
    elif finding.fix is not None:
        # A note is left alone by a plain fix.
        how = f", with --select {finding.rule}" if finding.severity is Severity.NOTE else ""
        safety = Segment(f" ({finding.fix.safety}{how})", "quiet")
        yield _labelled("fix available", Segment(finding.fix.summary, "fix"), safety)


def _labelled(label: str, *parts: Segment | str) -> Line:
    return line(Segment(f"{label}:", "label"), " ", *parts, indent=_BODY, hang=2)


def _serving(examination: Examination) -> Iterator[Line]:
    """How engines serve the files: the releases that were asked for, or all known ones of the two main engines."""
    if rows := serving_rows(examination):
        yield BLANK
        yield line("serving" if examination.plans else "serving, as far as known", indent=_GROUP)
        for row in rows:
            yield _served(*row)
    if said := beside_serving(examination):
        yield line(said, indent=_ITEM, hang=2)


def _served(release: str, outcome: str, reason: str) -> Line:
    said = Segment(SERVED[outcome], OUTCOME_STYLE[outcome])
    return line(f"{release}: ", said, f" ({reason})" if reason else "", indent=_ITEM, hang=2)


def _not_judged(examination: Examination) -> Iterator[Line]:
    groups = unjudged(examination.skipped)
    if not groups:
        return
    yield BLANK
    yield line("not judged", indent=_GROUP)
    for group in groups:
        rules = Segment(f" ({listing(group.rules)})", "quiet")
        yield line(group.sentence, rules, indent=_ITEM, hang=2)


def _set_aside(examination: Examination) -> Iterator[Line]:
    """What the project's policy lets pass, each with its reason: it is there all the same."""
    if not examination.ignored:
        return
    yield BLANK
    yield line("set aside", indent=_GROUP)
    told: dict[tuple[str, str, str, str | None], int] = {}
    for item in examination.ignored:
        key = (item.finding.rule, item.finding.name, item.reason, item.expires)
        told[key] = told.get(key, 0) + 1
    for (rule, name, reason, expires), count in told.items():
        often = f" ({count} times)" if count > 1 else ""
        until = f" (until {expires})" if expires else ""
        yield line(f"{rule} {name}{often}: {show(reason, 400)}{until}", indent=_ITEM, hang=2)


def _policy(report: Report) -> Iterator[Line]:
    if report.policy is not None:
        yield line("judged by ", Segment(show(report.policy, PATH_LIMIT), "path"), hang=2)
    for remark in report.remarks:
        yield line(show(remark, 400), hang=2)


def _failed(report: Report) -> Iterator[Line]:
    for path, reason in report.failed:
        yield line(
            Segment("could not examine", "error"),
            " ",
            Segment(show(path, PATH_LIMIT), "path"),
            f": {failure(path, reason)}",
            hang=2,
        )
