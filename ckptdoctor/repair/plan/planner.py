"""The plan of a repair: a course of steps of which each is proven, or says what it takes for granted. Pure.

A course is run, and then looked at as a whole: the plans of the copy have to bear out what its steps are for, no engine
that was named may be worse off, and no error may come to light. What does not stand this is left out, or becomes
unsafe, and the course is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target
from ckptdoctor.repair.plan.case import Case, Proposal
from ckptdoctor.repair.plan.deciding import Options, Unfixed
from ckptdoctor.repair.plan.proving import claims, newest_of, said_worse, unproven, worse
from ckptdoctor.repair.plan.rounds import NOTHING_SETTLED, RepairPlan, Settled, run
from ckptdoctor.repair.words import said
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.text import listing

__all__ = ["Options", "RepairPlan", "Unfixed", "plan_repair", "plan_repair_of"]

_TRIES = 8
"""How often a course is run again because of what the one before it showed."""


_SUSPECTS = 32
"""How many steps are left out one by one to find the one that is to blame."""


def plan_repair(
    checkpoint: Checkpoint,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool] = lambda _: True,
) -> RepairPlan:
    """Plan the repair of `checkpoint`. `wanted` says which proposals `--select` allows. Reads no weights but small
    tensors and what a treatment has to compare."""
    before = survey(checkpoint, target, rules, options.engines, options.asked, options.provenance)
    return plan_repair_of(before, target, rules, options, wanted)[-1]


def plan_repair_of(
    before: Survey,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool] = lambda _: True,
) -> tuple[RepairPlan, ...]:
    """The plan of the safe repairs of a draft that was looked at already, and where `options` allow unsafe ones and
    there are any, the plan with these as well.

    What is safe is decided without the unsafe ones: they are no proof.
    """
    safe_only = replace(options, unsafe=False)
    plan, settled = _sound(before, target, rules, safe_only, wanted, NOTHING_SETTLED)
    if not options.unsafe or not (plan.unasked or settled.withheld):
        return (plan,)
    # What is withheld of the safe ones alone may be right together with an unsafe one.
    proven = {step.key for step in plan.steps}
    return plan, _sound(before, target, rules, options, wanted, Settled(assumed=settled.assumed), proven)[0]


def _sound(
    before: Survey,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool],
    settled: Settled,
    proven: Container[tuple[str, str]] = (),
) -> tuple[RepairPlan, Settled]:
    """A plan whose copy is no worse than the draft, and whose safe steps are proven (those of `proven` are already);
    and what was settled for it."""

    def course(with_regard_to: Settled) -> RepairPlan:
        return run(before, target, rules, options, wanted, with_regard_to)

    plan = course(settled)
    for _ in range(_TRIES):
        if not plan.steps:
            break
        assumed = _unproven(plan, options, proven)
        if assumed:
            settled = replace(settled, assumed={**settled.assumed, **assumed})
            plan = course(settled)
            continue
        why = _fault(plan)
        if why is None:
            break
        settled, plan = _without_the_culprit(plan, settled, why, course)
    else:
        if plan.steps and (why := _fault(plan)) is not None:
            withheld = {**settled.withheld, **{step.key: why for step in plan.steps}}
            settled = replace(settled, withheld=withheld)
            plan = course(settled)
    return plan, settled


def _unproven(plan: RepairPlan, options: Options, proven: Container[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The safe steps whose claims the plans of the copy do not bear out, and what they would take for granted."""
    named = bool(options.engines)
    claiming = [s for s in plan.steps if s.safety == "safe" and s.key not in proven and claims(s, named=named)]
    if not claiming:
        return {}
    before, after = plan.before.plans, plan.after.plans
    if not named:
        cases = [
            Case(survey.checkpoint, survey.facts, launch=options.asked.launch, provenance=provenance)
            for survey, provenance in ((plan.before, options.provenance), (plan.after, plan.provenance))
        ]
        before, after = newest_of(cases[0], plan.before.facts), newest_of(cases[1], plan.after.facts)
    found = {}
    for step in claiming:
        why = unproven(step, before, after, named=named)
        if why is not None:
            found[step.key] = why
    return found


def _fault(plan: RepairPlan) -> str | None:
    """Why the copy would not be as good as was promised, None where it is."""
    if plan.ineffective:
        return said("not_gone", treatment=plan.ineffective[0].treatment)
    if plan.appeared:
        return said("reveals", errors=listing([f"{f.rule} {f.name}" for f in plan.appeared], 6))
    for old, new in zip(plan.before.plans, plan.after.plans, strict=True):
        if worse(old, new):
            return said_worse(new)
    return None


def _without_the_culprit(
    plan: RepairPlan, settled: Settled, why: str, course: Callable[[Settled], RepairPlan]
) -> tuple[Settled, RepairPlan]:
    """The course without the one step that is to blame, or without all of them where it is none alone.

    A step that brings an error to light which the source does not show (a field that could not be read hid it) goes
    with what rests on it, so that the others are made.
    """
    if plan.ineffective:
        gone = {step.key: said("not_gone", treatment=step.treatment) for step in plan.ineffective}
        settled = replace(settled, withheld={**settled.withheld, **gone})
        return settled, course(settled)
    # Each try is a whole course: of hundreds of steps none is looked for.
    for step in plan.steps[:_SUSPECTS]:
        trial = replace(settled, withheld={**settled.withheld, step.key: why})
        without = course(trial)
        if _weight(without) < _weight(plan):
            return trial, without
    settled = replace(settled, withheld={**settled.withheld, **{step.key: why for step in plan.steps}})
    return settled, course(settled)


def _weight(plan: RepairPlan) -> int:
    """How much is wrong with a copy that is not wrong with the draft."""
    pairs = zip(plan.before.plans, plan.after.plans, strict=True)
    return len(plan.appeared) + len(plan.ineffective) + sum(worse(old, new) for old, new in pairs)
