"""A policy applied to what a scan found: other severities, exceptions, a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Examination, Finding, Ignored, Report, Severity
from ckptdoctor.policy.baseline import Baseline
from ckptdoctor.policy.project import Exemption, Policy
from ckptdoctor.rulebook import RuleBook
from ckptdoctor.text import show

__all__ = ["applied", "check_rules", "counts"]


def check_rules(policy: Policy, rules: RuleBook) -> None:
    """See that every rule that `policy` speaks of is one of `rules`: a misspelt exception would set nothing aside.

    Raises `UsageError` that names those which are none.
    """
    spoken_of = dict.fromkeys([*policy.severities, *(exemption.rule for exemption in policy.exemptions)])
    try:
        rules.select(tuple(spoken_of))
    except UsageError as error:
        where = f"{show(policy.source, 1024)}: " if policy.source is not None else ""
        raise UsageError(f"{where}{error}") from None


def applied(
    policy: Policy, examination: Examination, today: date, baseline: Baseline | None = None
) -> tuple[Examination, tuple[str, ...]]:
    """The examination as `policy` sees it, and what has to be said of the policy (exceptions that have expired).

    Findings that do not count go to `ignored` with the reason; a severity changes before anything is counted.
    """
    findings = [_graded(policy, finding) for finding in examination.findings]
    ignored: list[Ignored] = []
    if baseline is not None:
        findings, old = baseline.without_known(examination.path, findings)
        ignored += [Ignored(f, f"known since the baseline {baseline.source.name} was written") for f in old]
    left: list[Finding] = []
    remarks: dict[str, None] = {}
    for finding in findings:
        matching = [e for e in policy.exemptions if _covers(e, finding, examination.path)]
        valid = next((e for e in matching if today <= e.expires), None)
        if valid is not None:
            ignored.append(Ignored(finding, valid.reason, valid.expires.isoformat()))
            continue
        left.append(finding)
        for expired in matching:
            remarks[f"The exception for {expired.rule} ended on {expired.expires.isoformat()}; it counts again."] = None
    left.sort(key=lambda f: -f.severity.rank)
    commands = _worth_running(examination.next_commands, left) if ignored else examination.next_commands
    judged = replace(examination, findings=tuple(left), ignored=tuple(ignored), next_commands=tuple(commands))
    return judged, tuple(remarks)


def _worth_running(commands: Sequence[str], left: Sequence[Finding]) -> list[str]:
    """The next commands without those that are about findings which were set aside."""
    ids = {finding.rule for finding in left}
    possible = any(f.fix and not f.fix.refused and f.severity is not Severity.NOTE for f in left)
    about_rules, about_fix = "ckptdoctor explain ", "ckptdoctor fix "
    return [
        command
        for command in commands
        if (not command.startswith(about_rules) or command[len(about_rules) :] in ids)
        and (possible or not command.startswith(about_fix))
    ]


def counts(report: Report, fail_on: str) -> bool:
    """Whether a finding in `report` is as bad as `fail_on` (error, warning, note, never) or worse."""
    if fail_on == "never":
        return False
    level = Severity(fail_on).rank
    return any(report.count(s) for s in Severity if s.rank >= level)


def _names(finding: Finding) -> Iterable[str]:
    """What a person may call the rule of a finding, in any case: id, name, family."""
    return finding.rule.lower(), finding.name.lower(), finding.rule.rstrip("0123456789").lower()


def _graded(policy: Policy, finding: Finding) -> Finding:
    wanted = {name.lower(): severity for name, severity in policy.severities.items()}
    for name in _names(finding):  # the most special one wins
        if name in wanted:
            return replace(finding, severity=wanted[name], by_policy=True)
    return finding


def _covers(exemption: Exemption, finding: Finding, path: str) -> bool:
    if exemption.rule.lower() not in _names(finding):
        return False
    return exemption.path is None or fnmatchcase(path, exemption.path) or fnmatchcase(path, f"*/{exemption.path}")
