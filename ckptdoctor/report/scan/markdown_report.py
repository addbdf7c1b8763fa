"""The report as Markdown, for a pull request or a model card."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from ckptdoctor.findings import Report, Severity
from ckptdoctor.report.scan.view import CheckpointView, FindingView, report_view
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import words
from ckptdoctor.text import listing

__all__ = ["render"]

_MARK = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "\N{INFORMATION SOURCE}\N{VARIATION SELECTOR-16}"}
# What Markdown or HTML would take for markup; `$` is GitHub's mathematics, and addresses become links by themselves.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-!|~@&$]|:(?=//)|(?<=[Ww]{3})\.)")
# GitHub looks for these after Markdown is done, so that no escape helps: people and teams, issues.
_CALLS = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|#(?=[0-9])")
_JOINER = "\N{WORD JOINER}"


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """A section for each checkpoint: verdict, findings (details folded), how engines serve it, what was not judged."""
    view = report_view(report)
    parts = [f"> {_text(caveat)}\n" for caveat in view.caveats]
    parts += ["\n".join(_section(checkpoint)) for checkpoint in view.checkpoints]
    parts += [f"### {_text(path)}\n\n❌ Could not be examined: {_text(reason)}\n" for path, reason in view.failed]
    lines = [f"Judged by {_text(view.policy)}."] if view.policy else []
    lines += [_text(remark) for remark in view.remarks]
    parts += ["\n\n".join(lines) + "\n"] if lines else []
    parts += [f"**{_text(view.total)}**\n"] if view.total else []
    return "\n".join(parts)


def _section(checkpoint: CheckpointView) -> Iterator[str]:
    yield f"### {_text(checkpoint.path)}"
    yield ""
    yield f"{_text(checkpoint.title) + ': ' if checkpoint.title else ''}**{_text(checkpoint.counts)}**"
    yield ""
    if checkpoint.findings:
        yield "| | rule | what is wrong | where |"
        yield "|---|---|---|---|"
        for finding in checkpoint.findings:
            cells = (_text(finding.rule), _text(finding.message), _text(finding.where))
            yield f"| {_MARK[finding.severity]} | {' | '.join(cells)} |"
            if finding.more:
                yield f"| | | {_text(finding.more)} | |"
    else:
        yield _text(checkpoint.verdict)
    yield ""
    for finding in checkpoint.findings:
        yield from _details(finding)
    yield from _serving(checkpoint)
    for group in checkpoint.unjudged:
        yield f"Not judged: {_text(group.sentence)} ({_text(listing(group.rules))})."
        yield ""
    for fault in checkpoint.faults:
        yield f"⚠️ {_text(fault)}."
        yield ""
    for item in checkpoint.aside:
        more = f" (and {item.more:,} more)" if item.more else ""
        yield f"Set aside: {_text(item.rule)}: {_text(item.reason)}{item.until}{more}"
        yield ""


def _details(finding: FindingView) -> Iterator[str]:
    if finding.severity is Severity.NOTE:
        return
    # Inside a line of HTML nothing is Markdown, so its escapes would be seen there.
    yield f"<details><summary>{html.escape(words(finding.rule))}</summary>"
    yield ""
    if finding.unsure:
        yield f"This is {finding.unsure}, not certain."
        yield ""
    for label, told in finding.told:
        if label in ("on", "you would see", "next"):
            yield f"* **{label}**: {_text(told)}"
        elif label == "not fixed":
            yield f"* **fix**: {_text(f'not by ckptdoctor. {told}')}"
        elif label == "fix available":
            yield f"* **fix**: {_text(f'{told} ({finding.safety})')}"
    yield ""
    yield "</details>"
    yield ""


def _serving(checkpoint: CheckpointView) -> Iterator[str]:
    if checkpoint.serving:
        yield "| engine | serves it | why |"
        yield "|---|---|---|"
        for engine, outcome, _, reason in checkpoint.serving:
            yield f"| {_text(engine)} | {outcome} | {_text(reason)} |"
        yield ""
    if checkpoint.serving_remark:
        yield _text(checkpoint.serving_remark)
        yield ""


def _text(text: str) -> str:
    """`text` as plain words on one line, whatever a checkpoint put into it."""
    return _CALLS.sub(rf"\g<0>{_JOINER}", _MARKUP.sub(r"\\\1", words(text)))
