"""The report as Markdown, for a pull request or a model card."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from ckptdoctor.findings import Confidence, Examination, Finding, Report, Severity
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import (
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
    words,
)
from ckptdoctor.text import listing, show

__all__ = ["render"]

_MARK = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "\N{INFORMATION SOURCE}\N{VARIATION SELECTOR-16}"}
# What Markdown or HTML would take for markup; `$` is GitHub's mathematics, and addresses become links by themselves.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-!|~@&$]|:(?=//)|(?<=[Ww]{3})\.)")
# GitHub looks for these after Markdown is done, so that no escape helps: people and teams, issues.
_CALLS = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|#(?=[0-9])")
_JOINER = "\N{WORD JOINER}"


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """A section for each checkpoint: verdict, findings (details folded), how engines serve it, what was not judged."""
    parts = [f"> {_text(caveat)}\n" for caveat in report.caveats]
    parts += ["\n".join(_section(examination)) for examination in report.examinations]
    for path, reason in report.failed:
        parts.append(
            f"### {_text(show(path, PATH_LIMIT))}\n\n❌ Could not be examined: {_text(failure(path, reason))}\n"
        )
    if report.remarks or report.policy:
        lines = [f"Judged by {_text(show(report.policy, PATH_LIMIT))}."] if report.policy else []
        parts.append("\n\n".join([*lines, *(_text(remark) for remark in report.remarks)]) + "\n")
    if len(report.examinations) + len(report.failed) > 1:
        parts.append(f"**{_text(total(report))}**\n")
    return "\n".join(parts)


def _section(examination: Examination) -> Iterator[str]:
    yield f"### {_text(show(examination.path, PATH_LIMIT))}"
    yield ""
    if examination.title:
        yield f"{_text(examination.title)}: **{_text(counts(examination))}**"
    else:
        yield f"**{_text(counts(examination))}**"
    yield ""
    if examination.findings:
        yield "| | rule | what is wrong | where |"
        yield "|---|---|---|---|"
        for finding in examination.findings:
            cells = (
                f"{_text(finding.rule)} {_text(finding.name)}",
                _text(finding.message),
                _text(place(finding.location)),
            )
            yield f"| {_MARK[finding.severity]} | {' | '.join(cells)} |"
        yield ""
        for finding in examination.findings:
            yield from _details(finding)
    else:
        yield _text(nothing_found(examination))
        yield ""
    yield from _serving(examination)
    for group in unjudged(examination.skipped):
        yield f"Not judged: {_text(group.sentence)} ({_text(listing(group.rules))})."
        yield ""
    for item in examination.ignored:
        until = f" (until {item.expires})" if item.expires else ""
        rule = f"{_text(item.finding.rule)} {_text(item.finding.name)}"
        yield f"Set aside: {rule}: {_text(item.reason)}{until}"
        yield ""


def _details(finding: Finding) -> Iterator[str]:
    if finding.severity is Severity.NOTE:
        return
    # Inside a line of HTML nothing is Markdown, so its escapes would be seen there.
    yield f"<details><summary>{html.escape(words(f'{finding.rule} {finding.name}'))}</summary>"
    yield ""
    if finding.confidence is not Confidence.CERTAIN:
        yield f"This is {finding.confidence.value}, not certain."
        yield ""
    if finding.engines:
        yield f"* **on**: {_text(listing(finding.engines, 6))}"
    if finding.effect:
        yield f"* **you would see**: {_text(finding.effect)}"
    if finding.advice:
        yield f"* **next**: {_text(finding.advice)}"
    if finding.fix is not None:
        refused = finding.fix.refused
        told = f"{finding.fix.summary} ({finding.fix.safety})" if refused is None else f"not by ckptdoctor. {refused}"
        yield f"* **fix**: {_text(told)}"
    yield ""
    yield "</details>"
    yield ""


def _serving(examination: Examination) -> Iterator[str]:
    if rows := serving_rows(examination):
        yield "| engine | serves it | why |"
        yield "|---|---|---|"
        for engine, outcome, reason in rows:
            yield f"| {_text(engine)} | {SERVED[outcome]} | {_text(reason)} |"
        yield ""
        if said := beside_serving(examination):
            yield _text(said)
            yield ""


def _text(text: str) -> str:
    """`text` as plain words on one line, whatever a checkpoint put into it."""
    return _CALLS.sub(rf"\g<0>{_JOINER}", _MARKUP.sub(r"\\\1", words(text)))
