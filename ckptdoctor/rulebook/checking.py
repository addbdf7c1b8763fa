"""Checks whole rules against the facts and the treatments there are; every problem is one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ckptdoctor.rulebook.errors import ExpressionError, did_you_mean
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.facttypes import element_type
from ckptdoctor.rulebook.names import check_names
from ckptdoctor.rulebook.rules import FixPlan, Rule
from ckptdoctor.text import show

__all__ = ["Arguments", "rule_problems"]


class Arguments(NamedTuple):
    """What a treatment must be given, and what it may be given, in `with`."""

    needed: frozenset[str]
    allowed: frozenset[str]


def rule_problems(
    rule: Rule, names: Mapping[str, type], treatments: Mapping[str, Arguments] | None = None
) -> Iterator[str]:
    """What is wrong with `rule`: expressions that cannot be parsed, names that are no facts, unknown treatments.

    `names` gives the type of each root name; `treatments` are the treatments there are with their
    arguments, None when they are not to be checked.
    """
    place = f"{show(rule.where)}: rule {rule.id}"
    try:
        for_each = rule.condition.for_each
        expressions = list(_expressions(rule))
    except ExpressionError as error:
        yield f"{place}, {error}"
        return
    # A plan exists only where an engine is named.
    roots: dict[str, object] = {k: v for k, v in names.items() if k != "plan" or rule.scope == "serving"}
    if for_each is not None:
        try:
            roots["it"] = element_type(check_names(for_each, names))
        except ExpressionError as error:
            yield f"{place}, for_each: {error}"
            roots["it"] = Any
    for field, expression in expressions:
        try:
            check_names(expression, roots)
        except ExpressionError as error:
            yield f"{place}, {field}: {error}"
    if rule.fix is not None and treatments is not None:
        for problem in _fix_problems(rule.fix, treatments):
            yield f"{place}, fix: {problem}"


def _fix_problems(fix: FixPlan, treatments: Mapping[str, Arguments]) -> Iterator[str]:
    if (fix.safety == "unsafe") != (fix.assumption is not None):
        yield "an unsafe repair needs an assumption, and a safe one has none"
    if fix.treatment not in treatments:
        yield f"there is no treatment {show(fix.treatment)}{did_you_mean(fix.treatment, treatments)}"
        return
    needed, allowed = treatments[fix.treatment]
    for name in sorted(needed - set(fix.arguments)):
        yield f"{show(fix.treatment)} needs {name} in with"
    for name in sorted(set(fix.arguments) - allowed):
        yield f"{show(fix.treatment)} takes no {show(name)}{did_you_mean(name, allowed)}"


def _expressions(rule: Rule) -> Iterator[tuple[str, Expression]]:
    """Every expression in which `it` may be used, with the field it stands in."""
    condition, wording = rule.condition, rule.wording
    if condition.when is not None:
        yield "when", condition.when
    if condition.claim is not None:
        yield "assert", condition.claim
    templates = {"message": wording.message, "effect": wording.effect, "advice": wording.advice}
    templates |= {f"location.{name}": template for name, template in wording.location.items()}
    if wording.fix_summary is not None:
        templates["fix.summary"] = wording.fix_summary
    if wording.fix_assumption is not None:
        templates["fix.assumption"] = wording.fix_assumption
    for field, template in templates.items():
        for expression in template.expressions:
            yield field, expression
    for name, expression in wording.position.items():
        yield f"location.{name}", expression
    for name, expression in wording.fix_arguments.items():
        yield f"fix.with.{name}", expression
    for name, expression in wording.evidence.items():
        yield f"evidence.{name}", expression
    for _, condition_of_claim in wording.claims:
        if condition_of_claim is not None:
            yield "claims.when", condition_of_claim
