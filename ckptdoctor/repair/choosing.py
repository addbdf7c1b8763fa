"""Which of several changes suits the named engines, or most known releases: decided by load plans, never by names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckptdoctor.facts import Facts
from ckptdoctor.repair.edits import Edit
from ckptdoctor.repair.proposal import Case, RefusedError
from ckptdoctor.serving import LoadPlan, contracts
from ckptdoctor.serving.compat import compatibility
from ckptdoctor.unknown import Unknown

__all__ = ["ORDER", "Option", "Reach", "Score", "lost", "reach", "score", "suits_all", "unlike"]

ORDER = {"refused": 0, "broken": 1, "degraded": 2, "served": 3}
Score = tuple[int, ...]


@dataclass(frozen=True)
class Option:
    """One way to change the draft, and what people call it."""

    label: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Reach:
    """Known releases of the engines that a scan speaks of: how many load the draft whole, how many serve it, and the
    engines whose newest release loads it whole."""

    whole: int
    served: int
    newest: frozenset[str]


def lost(plan: LoadPlan, facts: Facts) -> tuple[str, ...]:
    """Stored parts of the draft for which the class has no place. What is none of the draft's parameters is not counted,
    nor what the loader passes over on purpose (rotary tables, an embedding that is the target's)."""
    names = facts.draft.names
    strange = {n for s in () if isinstance(names, Unknown) else names.strangers for n in s.names}
    gone = (s for s in plan.stored if s.parameter is None and s.why == "no such parameter")
    return tuple(s.name for s in gone if s.name not in strange)


def score(plan: LoadPlan, facts: Facts) -> Score:
    """How well a release takes the draft; smaller is better. A class whose parameters are not known proves nothing, and
    one that drops trained parts counts as broken."""
    rank = ORDER[plan.outcome]
    gone = len(lost(plan, facts))
    if gone or not plan.parameters:
        rank = min(rank, ORDER["broken"])
    early = len(plan.load_errors)
    return (-rank, early, len(plan.left_random), gone, len(plan.left_at_ones))


def suits_all(case: Case, options: Sequence[Option]) -> tuple[Option, tuple[Score, ...]]:
    """The option that is the best for each of the named engines, the one with the fewest edits where several are, and its
    scores.

    Raises `RefusedError('split')` when they want different ones.
    """
    scores: list[tuple[Score, ...]] = []
    for option in options:
        facts = case.after(option.edits) if option.edits else case.facts
        plans = case.plans_after(option.edits) if option.edits else case.plans
        scores.append(tuple(score(plan, facts) for plan in plans))
    best = tuple(min(column) for column in zip(*scores, strict=True))
    fitting = [i for i, row in enumerate(scores) if row == best]
    if not fitting:
        wanted = []
        for engine, column in enumerate(zip(*scores, strict=True)):
            first = next(i for i in _by_size(options) if column[i] == best[engine])
            wanted.append(f"{case.plans[engine].label}: {options[first].label}")
        raise RefusedError("split", wanted="; ".join(wanted))
    chosen = min(fitting, key=lambda i: len(options[i].edits))
    return options[chosen], scores[chosen]


def unlike(case: Case, scores: Sequence[Score]) -> bool:
    """Whether an engine of the finding is better off with these scores than as it is."""
    now = [score(plan, case.facts) for plan in case.plans]
    ours = [i for i, p in enumerate(case.plans) if f"{p.engine}=={p.version}" in case.finding_engines]
    return any(scores[i] < now[i] for i in ours or range(len(now)))


def reach(case: Case, facts: Facts) -> Reach:
    """How far over the known releases this draft loads."""
    engines = [name for name, contract in contracts().items() if contract.raw.get("in_scans")]
    whole = served = 0
    newest: set[str] = set()
    for span in compatibility(facts, engines, case.launch, case.trained_with):
        releases = contracts()[span.engine].releases
        count = releases.index(span.last) - releases.index(span.first) + 1
        plan = span.plan
        if plan.parameters and not plan.load_errors and not plan.left_random and not lost(plan, facts):
            whole += count
            served += count if ORDER[plan.outcome] >= ORDER["degraded"] else 0
            if span.is_newest:
                newest.add(span.engine)
    return Reach(whole, served, frozenset(newest))


def _by_size(options: Sequence[Option]) -> list[int]:
    return sorted(range(len(options)), key=lambda i: len(options[i].edits))
