"""The report as workflow commands of GitHub Actions: annotations at files and lines, and a last line for the log."""

from __future__ import annotations

from ckptdoctor.findings import Examination, Finding, Report, Severity
from ckptdoctor.report.scan.told import IN_WORDS, kind_of, more_words, told
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import PATH_LIMIT, failure, fault_lines, file_path, serving_line, total, unserved, words
from ckptdoctor.text import show

__all__ = ["render"]

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """A line for each finding, the worst of all first: a step shows ten of each kind.

    What a checkpoint holds cannot begin another command.
    """
    found = [(f, e, more) for e in report.examinations for f, more in told(e.findings, kind_of, IN_WORDS)]
    lines = [f"::warning title=ckptdoctor::{_data(words(caveat))}" for caveat in report.caveats]
    for path, reason in report.failed:
        where = _property(show(path, PATH_LIMIT))
        lines.append(f"::error file={where},title=not examined::{_data(words(failure(path, reason)))}")
    lines += [_annotation(e, f, more) for f, e, more in sorted(found, key=lambda row: -row[0].severity.rank)]
    lines += [_serving(e) for e in report.examinations if unserved(e)]
    lines += [
        f"::warning title=ckptdoctor::{_data(words(f))}" for e in report.examinations for f in fault_lines(e.faults)
    ]
    lines += [f"::notice title=ckptdoctor::{_data(words(remark))}" for remark in report.remarks]
    aside = sum(len(e.ignored) for e in report.examinations)
    set_aside = f"; {aside} set aside by the project's policy" if aside else ""
    return "\n".join([*lines, _plain(f"{total(report)}{set_aside}")]) + "\n"


def _annotation(examination: Examination, finding: Finding, more: int) -> str:
    file = show(file_path(examination.path, finding.location.file), PATH_LIMIT)
    line = f",line={finding.location.line}" if finding.location.line else ""
    title = _property(words(f"{finding.rule} {finding.name}"))
    parts = [finding.message, f"You would see: {finding.effect}" if finding.effect else "", finding.advice]
    parts.append(more_words(more, finding.rule))
    text = _data("\n".join(words(part) for part in parts if part))
    return f"::{_COMMAND[finding.severity]} file={_property(file)}{line},title={title}::{text}"


def _serving(examination: Examination) -> str:
    file = _property(show(examination.path, PATH_LIMIT))
    return f"::notice file={file},title=serving::{_data(words(serving_line(examination)))}"


def _data(text: str) -> str:
    """Escaped as the runner asks: a line end would begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _plain(text: str) -> str:
    """A line that is no command, whatever is in it. The old form of commands may stand anywhere in a line."""
    return words(text).replace("::", ": :").replace("##[", "## [")
