"""How far over the known releases a draft loads: what is asked where no engine was named."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.facts import Facts
from ckptdoctor.repair.plan.case import Case
from ckptdoctor.repair.plan.choosing import Score, lost, score
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.compat import compatibility
from ckptdoctor.serving.contract.contracts import Contract
from ckptdoctor.serving.outcomes import Outcome

__all__ = ["Reach", "loads_newest", "newest_scores", "reach"]


@dataclass(frozen=True)
class Reach:
    """Known releases of the engines that a scan speaks of: how many load the draft whole, how many serve it, and the
    engines whose newest release loads it whole, or runs it with less."""

    whole: int
    served: int
    newest: frozenset[str]


def reach(case: Case, facts: Facts) -> Reach:
    """How far over the known releases this draft loads."""
    whole = served = 0
    newest: set[str] = set()
    for span in compatibility(facts, [c.engine for c in _in_scans()], case.launch, case.provenance):
        releases = contracts()[span.engine].releases
        count = releases.index(span.last) - releases.index(span.first) + 1
        plan = span.plan
        runs = plan.outcome in (Outcome.SERVED, Outcome.DEGRADED)
        if span.is_newest and (runs or _is_whole(plan, facts)):
            newest.add(span.engine)
        if _is_whole(plan, facts):
            whole += count
            served += count if runs else 0
    return Reach(whole, served, frozenset(newest))


def loads_newest(case: Case, facts: Facts) -> bool:
    """Whether the newest known release of an engine that a scan speaks of loads this draft whole."""
    return any(_is_whole(load_plan(facts, c, c.newest, case.launch, case.provenance), facts) for c in _in_scans())


def newest_scores(case: Case, facts: Facts) -> tuple[Score, ...]:
    """How well the newest known release of each engine that a scan speaks of takes this draft."""
    return tuple(score(load_plan(facts, c, c.newest, case.launch, case.provenance), facts) for c in _in_scans())


def _is_whole(plan: LoadPlan, facts: Facts) -> bool:
    return bool(plan.parameters) and not plan.load_errors and not plan.left_random and not lost(plan, facts)


def _in_scans() -> list[Contract]:
    return [contract for contract in contracts().values() if contract.raw.get("in_scans")]
