"""One report, one truth: what findings say of engines, and what is shown of the plans of these engines.

A plan knows names, shapes, configs and captured layers. A rule may know more: values of weights, the launch line, what
a trainer meant. Where a finding says that an engine stops or accepts nothing, no plan in the same report says better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckptdoctor.findings import Claim, Confidence, Finding, ServingRange, Severity
from ckptdoctor.serving.contract.contracts import Contract, Release, contracts
from ckptdoctor.serving.outcomes import is_worse

__all__ = ["claimed", "of_plans", "of_ranges"]


def claimed(findings: Iterable[Finding], release: Release, outcome: str) -> tuple[str, str | None]:
    """The outcome of `release` after what `findings` say of it, and the reason where that is another one.

    A finding that is certain lowers it to what it claims. One that is not, or that cannot tell whether it comes so,
    makes it unknown where it claims something worse.
    """
    found, reason = outcome, None
    for finding in findings:
        if finding.severity is Severity.NOTE and not finding.by_policy:
            continue
        for claim in finding.claims:
            if not _speaks_of(claim, finding, release):
                continue
            sure = claim.sure and finding.confidence is Confidence.CERTAIN
            after = claim.outcome if sure else "unknown"
            if is_worse(claim.outcome, found) and (after != "unknown" or found in ("served", "degraded")):
                found, reason = after, f"{finding.rule}: {finding.message.rstrip('.')}"
    return found, reason


def of_plans(plans: Sequence[Mapping[str, Any]], findings: Sequence[Finding]) -> tuple[Mapping[str, Any], ...]:
    """The plans as a report shows them."""
    return tuple(_of_plan(plan, findings) for plan in plans)


def _of_plan(plan: Mapping[str, Any], findings: Sequence[Finding]) -> Mapping[str, Any]:
    release = Release(contracts()[plan["engine"]], plan["version"])
    outcome, reason = claimed(findings, release, plan["outcome"])
    if reason is None:
        return plan
    told = {"unproven": [*plan["unproven"], reason]} if outcome == "unknown" else {}
    return {**plan, **told, "outcome": outcome, "reasons": [reason, *plan["reasons"]]}


def of_ranges(rows: Sequence[ServingRange], findings: Sequence[Finding]) -> tuple[ServingRange, ...]:
    """The ranges as a report shows them, cut where a finding speaks of a part of one."""
    if not any(finding.claims for finding in findings):
        return tuple(rows)
    shown: list[ServingRange] = []
    for row in rows:
        contract = contracts()[row.engine]
        cut: list[ServingRange] = []
        for version in _releases(row, contract):
            outcome, reason = claimed(findings, Release(contract, version), row.outcome)
            part = replace(row, first=version, last=version, is_newest=row.is_newest and version == row.last)
            part = part if reason is None else replace(part, outcome=outcome, reason=reason)
            before = cut[-1] if cut else None
            if before is not None and (before.outcome, before.reason) == (part.outcome, part.reason):
                cut[-1] = replace(part, first=before.first)
            else:
                cut.append(part)
        shown += cut
    return tuple(_joined(shown))


def _joined(rows: Iterable[ServingRange]) -> list[ServingRange]:
    """Neighbours of which the same is said, as one."""
    joined: list[ServingRange] = []
    for row in rows:
        before = joined[-1] if joined else None
        if before is not None and (before.engine, before.outcome, before.reason) == (
            row.engine, row.outcome, row.reason,
        ):  # fmt: skip
            joined[-1] = replace(row, first=before.first)
        else:
            joined.append(row)
    return joined


def _releases(row: ServingRange, contract: Contract) -> Sequence[str]:
    known = contract.releases
    return known[known.index(row.first) : known.index(row.last) + 1]


def _speaks_of(claim: Claim, finding: Finding, release: Release) -> bool:
    """Whether `claim` is about `release`. A finding of a named release is about that one alone."""
    engine = release.contract.engine
    if claim.engines and engine not in claim.engines:
        return False
    if finding.engines and f"{engine}=={release.version}" not in finding.engines:
        return False
    row = {key: value for key, value in (("from", claim.since), ("until", claim.until)) if value is not None}
    return release.holds(row)
