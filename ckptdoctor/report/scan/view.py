"""What a report tells people, as plain values in the order in which it is told: text, Markdown and HTML render this."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.findings import Confidence, Examination, Finding, Ignored, Report, Severity
from ckptdoctor.report.scan.told import IN_WORDS, kind_of, more_words, told
from ckptdoctor.report.wording import (
    OUTCOME_STYLE,
    PATH_LIMIT,
    SERVED,
    Unjudged,
    beside_serving,
    counts,
    failure,
    fault_lines,
    nothing_found,
    place,
    serving_rows,
    total,
    unjudged,
    unserved,
)
from ckptdoctor.text import listing, show

__all__ = ["Aside", "CheckpointView", "FindingView", "ReportView", "report_view"]

_VERDICTS = {
    Severity.ERROR: "Do not serve this as it is.",
    Severity.WARNING: "Look at the warnings before it is served.",
    Severity.NOTE: "There is something to know",
}


@dataclass(frozen=True)
class FindingView:
    """One finding. `rule` is its id and name, `unsure` empty where it is certain. `told` are pairs of a label and a
    sentence, what there is of them: `on`, `you would see`, `next`, `not fixed` or `fix available` (how safely is
    `safety`) and `assumes`, `severity`. `background` and `reports` are what is known of the rule, `more` says how many
    like it are left out behind it."""

    rule: str
    severity: Severity
    unsure: str
    where: str
    message: str
    told: tuple[tuple[str, str], ...]
    safety: str
    background: str
    reports: tuple[str, ...]
    more: str


@dataclass(frozen=True)
class Aside:
    """A finding that the project's policy lets pass: it is there all the same. `until` is empty without an end,
    `more` are those like it that are left out behind it."""

    rule: str
    message: str
    reason: str
    until: str
    more: int


@dataclass(frozen=True)
class CheckpointView:
    """One checkpoint. `verdict` is the sentence over its findings, or instead of them. `serving` are rows of release,
    outcome, style and reason. `faults` are sentences on what ckptdoctor itself got wrong.
    `examination` is for what one format alone shows."""

    path: str
    title: str
    verdict: str
    counts: str
    findings: tuple[FindingView, ...]
    serving_title: str
    serving: tuple[tuple[str, str, str, str], ...]
    serving_remark: str
    unjudged: tuple[Unjudged, ...]
    faults: tuple[str, ...]
    aside: tuple[Aside, ...]
    commands: tuple[str, ...]
    examination: Examination

    @property
    def ranked(self) -> list[FindingView]:
        """The findings, the worst first."""
        return sorted(self.findings, key=lambda finding: -finding.severity.rank)

    @property
    def worst(self) -> str:
        """`error`, `warning`, `note` or `none`."""
        return next((finding.severity.value for finding in self.ranked), "none")


@dataclass(frozen=True)
class ReportView:
    """The report. `title` is the line over all checkpoints, which is `total` too, or the path where there is one alone.
    `caveats` stand before everything else; `failed` are paths and reasons. `policy` and `total` may be empty."""

    title: str
    caveats: tuple[str, ...]
    checkpoints: tuple[CheckpointView, ...]
    failed: tuple[tuple[str, str], ...]
    policy: str
    remarks: tuple[str, ...]
    total: str


def report_view(report: Report) -> ReportView:
    """The view of `report`."""
    paths = [*(examination.path for examination in report.examinations), *(path for path, _ in report.failed)]
    whole = total(report) if len(paths) > 1 else ""
    return ReportView(
        title=whole or show(paths[0] if paths else "", PATH_LIMIT),
        caveats=report.caveats,
        checkpoints=tuple(_checkpoint(report, examination) for examination in report.examinations),
        failed=tuple((show(path, PATH_LIMIT), failure(path, reason)) for path, reason in report.failed),
        policy="" if report.policy is None else show(report.policy, PATH_LIMIT),
        remarks=report.remarks,
        total=whole,
    )


def _checkpoint(report: Report, examination: Examination) -> CheckpointView:
    rows = serving_rows(examination)
    return CheckpointView(
        path=show(examination.path, PATH_LIMIT),
        title=examination.title,
        verdict=_verdict(examination),
        counts=counts(examination),
        findings=tuple(_finding(report, f, more) for f, more in told(examination.findings, kind_of, IN_WORDS)),
        serving_title="serving" if examination.plans else "serving, as far as known",
        serving=tuple((release, SERVED[out], OUTCOME_STYLE[out], why) for release, out, why in rows),
        serving_remark=beside_serving(examination),
        unjudged=tuple(unjudged(examination.skipped)),
        faults=tuple(fault_lines(examination.faults)),
        aside=tuple(_aside(*pair) for pair in told(examination.ignored, lambda i: kind_of(i.finding), IN_WORDS)),
        commands=examination.next_commands,
        examination=examination,
    )


def _verdict(examination: Examination) -> str:
    if not examination.findings:
        return nothing_found(examination)
    worst = max((finding.severity for finding in examination.findings), key=lambda severity: severity.rank)
    if worst is not Severity.NOTE:
        return _VERDICTS[worst]
    said = unserved(examination)
    return f"{_VERDICTS[worst]}{f'; {said}' if said else ''}."


def _finding(report: Report, finding: Finding, more: int) -> FindingView:
    about, fix = report.rules.get(finding.rule), finding.fix
    on = listing(finding.engines, 6) if finding.engines else ""
    said = [("on", on), ("you would see", finding.effect), ("next", finding.advice)]
    if fix is not None and fix.refused is not None:
        said.append(("not fixed", fix.refused))
    elif fix is not None:
        said += [("fix available", fix.summary), ("assumes", fix.assumption or "")]
    if finding.by_policy:
        said.append(("severity", "set by the project's policy"))
    return FindingView(
        rule=f"{finding.rule} {finding.name}",
        severity=finding.severity,
        unsure="" if finding.confidence is Confidence.CERTAIN else finding.confidence.value,
        where=place(finding.location),
        message=finding.message,
        told=tuple((label, words) for label, words in said if words),
        safety=fix.safety if fix is not None else "",
        background=about.why if about is not None else "",
        reports=about.seen_in if about is not None else finding.seen_in,
        more=more_words(more, finding.rule),
    )


def _aside(item: Ignored, more: int) -> Aside:
    until = f" (until {item.expires})" if item.expires else ""
    return Aside(f"{item.finding.rule} {item.finding.name}", item.finding.message, item.reason, until, more)
