"""What is not certain is never told as an error."""

from __future__ import annotations

from dataclasses import replace

from ckptdoctor.findings import Confidence, Finding, Report, Severity

__all__ = ["capped"]

_HIGHEST = {
    Confidence.CERTAIN: Severity.ERROR,
    Confidence.LIKELY: Severity.WARNING,
    Confidence.POSSIBLE: Severity.NOTE,
}


def capped(report: Report) -> Report:
    """`report` with `likely` findings as warnings at most and `possible` ones as notes.

    Doing it twice changes nothing. A severity that the project's own policy set stays.
    """
    return replace(
        report,
        examinations=tuple(replace(e, findings=tuple(_capped(f) for f in e.findings)) for e in report.examinations),
    )


def _capped(finding: Finding) -> Finding:
    highest = _HIGHEST[finding.confidence]
    return finding if finding.by_policy or finding.severity.rank <= highest.rank else replace(finding, severity=highest)
