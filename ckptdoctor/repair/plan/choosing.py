"""Which of several changes suits the named engines, or most known releases: decided by load plans, never by names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckptdoctor.facts import Facts
from ckptdoctor.repair.edits import Edit
from ckptdoctor.repair.plan.case import Case, RefusedError
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.unknown import Unknown

__all__ = [
    "Option",
    "Score",
    "helps",
    "lost",
    "score",
    "suits_all",
]

Score = tuple[int, ...]
_NO_CLASS = 1 << 20


@dataclass(frozen=True)
class Option:
    """One way to change the draft, and what people call it."""

    label: str
    edits: tuple[Edit, ...]


def lost(plan: LoadPlan, facts: Facts) -> tuple[str, ...]:
    """Stored parts of the draft for which the class has no place.

    What is none of the draft's parameters is not counted, nor what the loader passes over on purpose (rotary tables, an
    embedding that is the target's).
    """
    names = facts.draft.names
    strange = set() if isinstance(names, Unknown) else {n for s in names.strangers for n in s.every}
    gone = (s for s in plan.stored if s.parameter is None and s.why == "no such parameter")
    return tuple(s.name for s in gone if s.name not in strange)


def score(plan: LoadPlan, facts: Facts) -> Score:
    """How well a release takes the draft; smaller is better. A class whose parameters are not known proves nothing, and
    one that drops trained parts counts as broken.

    Which layers of the target are captured is left out: names and classes do not decide it.
    """
    outcomes = [Outcome(c.level) for c in plan.causes if c not in plan.capture_causes]
    reached = Outcome.REFUSED if plan.load_errors else min(outcomes, default=Outcome.SERVED, key=lambda o: o.worth)
    gone = len(lost(plan, facts))
    if gone or not plan.parameters:
        reached = min(reached, Outcome.BROKEN, key=lambda outcome: outcome.worth)
    # Without a class nothing else was looked at: such a plan has one error, and says nothing of the others.
    early = _NO_CLASS if any(e.stage == "class" for e in plan.load_errors) else len(plan.load_errors)
    return (-reached.worth, early, len(plan.left_random), gone, len(plan.left_at_ones))


def suits_all(case: Case, options: Sequence[Option], later: Sequence[Option] = ()) -> tuple[Option, tuple[Score, ...]]:
    """The option that is the best for each of the named engines, and its scores; of several the one with fewest edits.

    Of each option the best counts that one of the changes in `later` could make of it.

    Raises `RefusedError('split')` when they want different ones.
    """
    scores = [_scores(case, option.edits, later) for option in options]
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


def _scores(case: Case, edits: tuple[Edit, ...], later: Sequence[Option]) -> tuple[Score, ...]:
    """The score of each named engine with these edits, and with what could follow."""
    rows = []
    for more in ((), *(option.edits for option in later)):
        together = (*edits, *more)
        facts = case.after(together) if together else case.facts
        plans = case.plans_after(together) if together else case.plans
        rows.append([score(plan, facts) for plan in plans])
    return tuple(min(column) for column in zip(*rows, strict=True))


def helps(case: Case, scores: Sequence[Score], later: Sequence[Option] = ()) -> bool:
    """Whether an engine of the finding is better off with these scores than as it is (or could become by `later`)."""
    now = _scores(case, (), later)
    ours = [i for i, p in enumerate(case.plans) if f"{p.engine}=={p.version}" in case.finding_engines]
    return any(scores[i] < now[i] for i in ours or range(len(now)))


def _by_size(options: Sequence[Option]) -> list[int]:
    return sorted(range(len(options)), key=lambda i: len(options[i].edits))
