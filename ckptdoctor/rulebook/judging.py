"""Judges facts by rules: what fires becomes a finding, what meets an unknown fact is skipped and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ckptdoctor.findings import (
    OWN_FAULTS,
    Claim,
    Confidence,
    Fault,
    Finding,
    Fix,
    Location,
    Severity,
    Skip,
    is_strict,
    problem_of,
)
from ckptdoctor.rulebook.errors import ExpressionError, RuleEvaluationError, RuleFileError
from ckptdoctor.rulebook.evaluator import Evaluator
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.messages import json_safe
from ckptdoctor.rulebook.rules import Condition, Rule
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["Judgement", "judge", "judge_plans"]

_CAPS = {Confidence.CERTAIN: Severity.ERROR, Confidence.LIKELY: Severity.WARNING, Confidence.POSSIBLE: Severity.NOTE}


@dataclass(frozen=True)
class Judgement:
    """The findings, worst first, the rules that could not be judged or only in part, and those that are wrong."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skip, ...]
    faults: tuple[Fault, ...] = ()


def judge(
    book_rules: Iterable[Rule],
    facts: Mapping[str, object],
    uncertain: Mapping[str, Confidence] = MappingProxyType({}),
    scope: str = "checkpoint",
) -> Judgement:
    """Judges `facts` (the value of each root name) by those of `book_rules` that have this scope.

    `uncertain` names the fact paths (`draft.algorithm`, `vocab`) that are not certain; a finding is only
    as sure as the least sure fact that was read to reach it, and what is not certain is never an error.

    A rule that ships and fails for another reason than an unknown fact is a fault of ckptdoctor: it is counted, and
    what it found elsewhere stays. Raises `RuleEvaluationError` for one where faults end the run (`is_strict`), and
    `RuleFileError` when a rule of a person fails.
    """
    judge = _Judge(facts, uncertain)
    findings: dict[object, Finding] = {}
    skipped, faults = [], []
    for rule in book_rules:
        if rule.scope != scope:
            continue
        for finding in judge.findings(rule):
            findings.setdefault(_identity(finding), finding)
        if judge.need is not None:
            skipped.append(Skip(rule.id, judge.need))
        if judge.problem is not None:
            faults.append(Fault("rule", rule.id, judge.problem))
    return Judgement(tuple(sorted(findings.values(), key=_order)), tuple(skipped), tuple(faults))


def judge_plans(
    book_rules: Iterable[Rule],
    facts: Mapping[str, object],
    plans: Iterable[tuple[str, object, Mapping[str, Confidence]]],
) -> Judgement:
    """Judges each plan by the rules of scope `serving`, with the plan as the fact `plan`.

    A plan comes with the label of its engine (`sglang==0.5.9`) and the facts of it that are not certain.
    The same finding for several engines is one finding that names them all.
    """
    rules = [rule for rule in book_rules if rule.scope == "serving"]
    merged: dict[object, Finding] = {}
    skipped: dict[str, Skip] = {}
    faults: dict[str, Fault] = {}
    for label, plan, uncertain in plans:
        judged = judge(rules, {**facts, "plan": plan}, uncertain, scope="serving")
        for finding in judged.findings:
            key = _identity(finding)
            engines = merged[key].engines if key in merged else ()
            merged[key] = replace(finding, engines=(*engines, label))
        for skip in judged.skipped:
            skipped.setdefault(skip.rule, skip)
        for fault in judged.faults:
            faults.setdefault(fault.part, fault)
    return Judgement(tuple(sorted(merged.values(), key=_order)), tuple(skipped.values()), tuple(faults.values()))


class _Judge:
    """Judges one rule after the other. `need` is what the last one lacked first, None when it was judged in full;
    `problem` is how it failed first, where that is a fault of the rule."""

    def __init__(self, facts: Mapping[str, object], uncertain: Mapping[str, Confidence]) -> None:
        self._evaluator = Evaluator(facts)
        self._uncertain = uncertain
        self.need: str | None = None
        self.problem: str | None = None

    def findings(self, rule: Rule) -> Iterator[Finding]:
        """The findings of `rule`."""
        self.need = self.problem = None
        self._evaluator.forget()
        try:
            yield from self._found(rule)
        except OWN_FAULTS as error:
            self._failed(rule, error)

    def _failed(self, rule: Rule, error: Exception) -> None:
        if rule.user:
            raise RuleFileError([f"{show(rule.where)}: rule {rule.id}: {_told(error)}"]) from error
        if is_strict():
            raise RuleEvaluationError(rule.id, _told(error)) from error
        if self.problem is None:
            self.problem = _told(error)

    def _found(self, rule: Rule) -> Iterator[Finding]:
        condition = rule.condition
        if condition.for_each is None:
            if self._fires(condition):
                yield self._finding(rule, frozenset())
            return
        if not self._may_apply(condition):
            return
        try:
            items = self._items(condition.for_each)
        except UnknownFactError as stop:
            self._lacks(stop)
            return
        reads = self._evaluator.reads
        for item in items:
            if isinstance(item, Unknown):
                self._lacks(UnknownFactError(item))
                continue
            self._evaluator.forget()
            self._evaluator.bind(item)
            try:
                if self._fires(condition):
                    yield self._finding(rule, reads)
            except OWN_FAULTS as error:
                self._failed(rule, error)

    def _items(self, for_each: Expression) -> list[Any]:
        items = self._evaluator.value(for_each)
        if items is None:
            return []
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise ExpressionError(f"for_each: `{show(for_each.text)}` gives no list")
        return list(items)

    def _may_apply(self, condition: Condition) -> bool:
        """Whether the conditions that concern no single item hold, as far as is known.

        They are looked at before the list, so that a rule for another kind of draft is not counted as
        skipped because its list is unknown.
        """
        try:
            return all(self._evaluator.value(expression) for expression in condition.leading)
        except UnknownFactError:
            return True

    def _fires(self, condition: Condition) -> bool:
        try:
            if condition.when is not None and not self._evaluator.value(condition.when):
                return False
            return condition.claim is None or not self._evaluator.value(condition.claim)
        except UnknownFactError as stop:
            self._lacks(stop)
            return False

    def _lacks(self, stop: UnknownFactError) -> None:
        if self.need is None:
            self.need = stop.unknown.needs

    def _finding(self, rule: Rule, list_reads: frozenset[str]) -> Finding:
        evaluator = self._evaluator
        confidence = self._confidence(evaluator.reads | list_reads)
        wording = rule.wording
        return Finding(
            rule=rule.id,
            name=rule.name,
            severity=min(rule.severity, _CAPS[confidence], key=lambda severity: severity.rank),
            confidence=confidence,
            message=wording.message.fill(evaluator),
            effect=wording.effect.fill(evaluator),
            advice=wording.advice.fill(evaluator),
            location=self._location(rule),
            evidence=dict(self._evidence(rule)),
            fix=self._fix(rule),
            seen_in=rule.seen_in,
            claims=tuple(self._claims(rule)),
        )

    def _claims(self, rule: Rule) -> Iterator[Claim]:
        """What this finding says of engines. A condition that cannot be judged leaves it open."""
        for claim, when in rule.wording.claims:
            try:
                if when is None or self._evaluator.value(when):
                    yield claim
            except UnknownFactError:
                yield replace(claim, sure=False)

    def _fix(self, rule: Rule) -> Fix | None:
        """The repair that the rule names, with the values of this finding; None where one of them is not known."""
        fix, wording = rule.fix, rule.wording
        if fix is None or wording.fix_summary is None:
            return None
        try:
            arguments = {name: self._evaluator.value(e) for name, e in wording.fix_arguments.items()}
        except UnknownFactError:
            return None
        assumption = wording.fix_assumption
        return Fix(
            treatment=fix.treatment,
            summary=wording.fix_summary.fill(self._evaluator),
            safety=fix.safety,
            assumption=None if assumption is None else assumption.fill(self._evaluator),
            arguments=arguments,
            user=rule.user,
        )

    def _confidence(self, reads: frozenset[str]) -> Confidence:
        levels = [
            level
            for fact, level in self._uncertain.items()
            if any(path == fact or path.startswith((f"{fact}.", f"{fact}[")) for path in reads)
        ]
        return min(levels, key=lambda level: level.rank, default=Confidence.CERTAIN)

    def _location(self, rule: Rule) -> Location:
        wording = rule.wording
        texts = {name: template.fill_or_none(self._evaluator) for name, template in wording.location.items()}
        numbers = {name: self._number(expression) for name, expression in wording.position.items()}
        return Location(**texts, **numbers)  # type: ignore[arg-type]  # the schema allows these names alone

    def _number(self, expression: Expression) -> int | None:
        try:
            value = self._evaluator.value(expression)
        except UnknownFactError:
            return None
        if value is not None and type(value) is not int:
            raise ExpressionError(f"location: `{show(expression.text)}` gives no whole number")
        return value

    def _evidence(self, rule: Rule) -> Iterator[tuple[str, Any]]:
        for name, expression in rule.wording.evidence.items():
            try:
                yield name, json_safe(self._evaluator.value(expression))
            except UnknownFactError:
                continue


def _told(error: Exception) -> str:
    # Errors of expressions say in their own words what they are.
    return str(error) if isinstance(error, ExpressionError) else problem_of(error)


def _identity(finding: Finding) -> object:
    return (finding.rule, finding.location, finding.message, finding.effect, finding.advice, finding.confidence,
            repr(finding.evidence), repr(finding.fix))  # fmt: skip


def _order(finding: Finding) -> tuple[object, ...]:
    place = finding.location
    texts = tuple(part or "" for part in (place.file, place.tensor, place.config_key))
    return (-finding.severity.rank, finding.rule, texts, place.line or 0, place.offset or 0)
