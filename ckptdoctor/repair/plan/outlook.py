"""What a scan offers: the repairs that `fix` would make, by running their courses; and why the others are not made.

A repair that is possible by itself may still not be made: it may be in conflict with another one, bring an error to
light, or leave the draft as it is for the engine. Only a whole course shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target
from ckptdoctor.facts.asked import Asked
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.planning import Chosen
from ckptdoctor.repair.plan.case import Case, Proposal, Refusal
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair_of
from ckptdoctor.repair.plan.proposing import proposed
from ckptdoctor.repair.plan.proving import claims, newest_of, said_worse, unproven, worse
from ckptdoctor.repair.receipt_reading import earlier_of
from ckptdoctor.repair.words import said
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.serving.layers.provenance import Provenance
from ckptdoctor.text import listing

__all__ = ["with_repairs"]

_MOST_READ = 8 << 20
"""Bytes of each of two tensors that are compared; `fix` compares them whole."""


def with_repairs(
    found: Survey,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    engines: Sequence[Chosen],
    asked: Asked,
    provenance: Provenance,
) -> tuple[Finding, ...]:
    """The findings with what their repairs really are: safe or unsafe, or refused.

    Of a draft that is not on this machine no course is run, since nothing of its weights is read.
    """
    findings, checkpoint = found.judgement.findings, found.checkpoint
    if not any(finding.fix for finding in findings):
        return findings
    releases = tuple((contract, release) for contract, release, _ in engines)
    case = Case(checkpoint, found.facts, releases, found.plans, asked.launch, provenance)
    earlier = earlier_of(checkpoint)
    answers = [(finding, proposed(case, finding, earlier)) for finding in findings]
    told = [_told(case, finding, answer) for finding, answer in answers]
    serious = [n for n, (f, a) in enumerate(answers) if isinstance(a, Proposal) and f.severity is not Severity.NOTE]
    if checkpoint.commit is not None or not serious:
        return tuple(told)
    # Weights are not gone through again for each step: what only their values show is offered as it is.
    asked = Asked(launch=asked.launch, heads=asked.deep or asked.heads)
    before = survey(checkpoint, target, rules, engines, asked, provenance) if asked.heads else found
    options = Options(unsafe=True, engines=tuple(engines), provenance=provenance, asked=asked, most_read=_MOST_READ)
    courses = [_Course(plan) for plan in plan_repair_of(before, target, rules, options)]
    seen = {_identity(finding) for finding in before.judgement.findings}
    for number in serious:
        finding, answer = answers[number]
        if isinstance(answer, Proposal) and _identity(finding) in seen:
            told[number] = _promised(finding, answer, courses)
    return tuple(told)


class _Course:
    """A plan as many findings ask for it."""

    def __init__(self, plan: RepairPlan) -> None:
        self.steps = {step.key: step for step in reversed(plan.steps)}
        self.left = {_identity(finding) for finding in plan.after.judgement.findings}
        self.unsafe = listing(dict.fromkeys(s.treatment for s in plan.steps if s.safety == "unsafe"), 6)
        self._why: dict[object, str] = {}
        for stays in plan.unfixed:
            self._why.setdefault(_identity(stays.finding), stays.why)
            self._why.setdefault(stays.finding.rule, stays.why)

    def why(self, finding: Finding, answer: Proposal) -> str:
        """Why the finding stays, in the words of `fix`."""
        why = self._why.get(_identity(finding), self._why.get(finding.rule))
        return said("not_gone", treatment=answer.treatment) if why is None else why


def _promised(finding: Finding, answer: Proposal, courses: Sequence[_Course]) -> Finding:
    """The finding with its repair as the first of the courses makes it, else why none does."""
    for number, course in enumerate(courses):
        step = course.steps.get(answer.key)
        if not course.steps or (step is None and _identity(finding) in course.left):
            continue
        assumption = None if step is None else step.assumption
        if assumption is None and number:
            assumption = said("with_others", treatments=course.unsafe)
        return _with_safety(finding, assumption)
    assert finding.fix is not None
    return replace(finding, fix=replace(finding.fix, refused=courses[-1].why(finding, answer)))


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.location, finding.message


def _told(case: Case, finding: Finding, answer: Proposal | Refusal | None) -> Finding:
    """The finding with its repair by itself. A note is repaired by `--select` alone, and so that is all there is."""
    if finding.fix is None or answer is None:
        return finding
    if isinstance(answer, Refusal):
        return replace(finding, fix=replace(finding.fix, refused=answer.why, fault=answer.fault))
    if finding.severity is not Severity.NOTE or not answer.edits:
        return _with_safety(finding, answer.assumption)
    named = bool(case.engines)
    if not claims(answer, named=named):
        return _with_safety(finding, answer.assumption)
    before = case.plans if named else newest_of(case, case.facts)
    after = case.plans_after(answer.edits) if named else newest_of(case, case.after(answer.edits))
    worst = next((said_worse(new) for old, new in zip(before, after, strict=True) if named and worse(old, new)), None)
    if worst is not None:
        return replace(finding, fix=replace(finding.fix, refused=worst))
    return _with_safety(finding, answer.assumption or unproven(answer, before, after, named=named))


def _with_safety(finding: Finding, assumption: str | None) -> Finding:
    assert finding.fix is not None
    safety = "safe" if assumption is None else "unsafe"
    return replace(finding, fix=replace(finding.fix, safety=safety, assumption=assumption))
