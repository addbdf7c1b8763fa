"""Safe means proven: what makes a repair safe is decided here, and nowhere else.

A repair is safe when everything it rests on is certain, and when the plans of the repaired copy bear out what it is
for: an engine that it is made for serves the copy, or does better with it than with the draft as it was, by contract
entries that were executed. Everything else is an assumption, and is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckptdoctor.facts import Facts
from ckptdoctor.findings import Confidence, Finding
from ckptdoctor.repair.plan.case import Case, Proposal, Treatment
from ckptdoctor.repair.plan.treatments_known import treatments
from ckptdoctor.repair.words import said
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.outcomes import is_better, is_worse
from ckptdoctor.text import show

__all__ = ["as_served", "better", "claims", "doubt", "newest_of", "only_read", "said_worse", "unproven", "worse"]


def doubt(case: Case, finding: Finding, treatment: Treatment) -> str | None:
    """What a repair of `finding` takes for granted because a fact that it rests on is one reading among several.

    None where all of them are certain: those that the rule read to reach the finding (its confidence), and those that
    the treatment goes by (`rests_on` of rules/repair).
    """
    uncertain = case.facts.uncertain
    guessed = [fact for fact in treatment.rests_on if fact in uncertain]
    if finding.confidence is Confidence.CERTAIN and not guessed:
        return None
    draft = case.facts.draft
    if "draft.algorithm" in uncertain:
        return said("guessed_kind", kind=show(draft.algorithm_name))
    if "draft.writer" in uncertain:
        return said("guessed_writer", writer=show(draft.writer.name))
    # What an engine makes of the draft as it is need not be certain where an executed plan serves the copy.
    return None if only_read(case, finding) else said("likely")


def only_read(case: Case, finding: Finding) -> bool:
    """Whether a finding is not certain because the contract of its engine was read and not executed, and for no other
    reason."""
    certain = finding.confidence is Confidence.CERTAIN
    return bool(finding.engines) and not certain and not case.facts.uncertain


def better(before: LoadPlan, after: LoadPlan) -> bool:
    """Whether `after` is proof: served, or strictly better than `before` by executed entries.

    What is not known proves nothing, whatever it was before.
    """
    if after.outcome == "served":
        return True
    if not (before.executed and after.executed):
        return False
    if is_better(after.outcome, before.outcome):
        return True
    return before.outcome == after.outcome == "degraded" and set(after.reasons) < set(before.reasons)


def worse(before: LoadPlan, after: LoadPlan) -> bool:
    """Whether the release does less with the draft as `after` than as `before`."""
    return is_worse(after.outcome, before.outcome)


def as_served(before: LoadPlan, after: LoadPlan) -> bool:
    """Whether nothing is wrong with `after` that was not wrong before, in as far as the release gets with it."""
    return after.outcome == before.outcome and set(after.reasons) <= set(before.reasons)


def newest_of(case: Case, facts: Facts) -> tuple[LoadPlan, ...]:
    """The plans of the newest known release of each engine that a scan speaks of."""
    asked = (c for c in contracts().values() if c.raw.get("in_scans"))
    return tuple(load_plan(facts, c, c.newest, case.launch, case.provenance) for c in asked)


def claims(proposal: Proposal, *, named: bool) -> bool:
    """Whether the repair claims something that plans have to bear out: those of the engines that were `named`, or,
    where none was, those of the newest releases."""
    serves = treatments()[proposal.treatment].serves
    return bool(proposal.engines) or serves == "newest" or (named and serves == "named")


def said_worse(plan: LoadPlan) -> str:
    """Why a repair is not made after which the release has this plan."""
    return said("worse", engine=plan.label, outcome=plan.outcome, reason=next(iter(plan.reasons), ""))


def unproven(proposal: Proposal, before: Sequence[LoadPlan], after: Sequence[LoadPlan], *, named: bool) -> str | None:
    """What a repair that was made on the way from the draft to the copy takes for granted, by the plans of both.

    An engine that it was made for has to be `better` off (by an executed plan, where the finding was only read), and
    every other one of which the treatment claims something (`serves`) better off or as it was. Where none was named
    (`named` False), the plans are those of the newest releases, of which at least one has to be better off. None where
    the plans bear the repair out, or where it claims nothing.
    """
    pairs, treatment = list(zip(before, after, strict=True)), treatments()[proposal.treatment]
    for old, new in pairs:
        mine = f"{old.engine}=={old.version}" in proposal.engines
        executed = new.loading_executed if treatment.proof == "loading" else new.executed
        if mine and proposal.read and new.outcome == "served" and not executed:
            return said("not_executed", engine=new.label)
        if not (mine or treatment.serves) or better(old, new) or (as_served(old, new) and not mine):
            continue
        return _short(new)
    if not named and not any(better(old, new) for old, new in pairs):
        return said("no_release")
    return None


def _short(plan: LoadPlan) -> str:
    reason = next(iter(plan.reasons), "")
    if plan.outcome == "unknown":
        return said("copy_unknown", engine=plan.label, reason=reason)
    if plan.outcome == "degraded":
        return said("copy_not_better", engine=plan.label, reason=reason)
    return said("copy_fails", engine=plan.label, outcome=plan.outcome, reason=reason)
