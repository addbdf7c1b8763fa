"""Checks whole rules against the facts and the treatments there are; every problem is one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ckptdoctor.rulebook.errors import ExpressionError, did_you_mean
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.facttypes import element_type
from ckptdoctor.rulebook.names import check_names
from ckptdoctor.rulebook.rules import Rule
from ckptdoctor.text import show

__all__ = ["rule_problems"]


def rule_problems(rule: Rule, names: Mapping[str, type], treatments: Collection[str] | None = None) -> Iterator[str]:
    """What is wrong with `rule`: expressions that cannot be parsed, names that are no facts, unknown treatments.

    `names` gives the type of each root name; `treatments` are the names of the treatments there are, None
    when they are not to be checked.
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
    if rule.fix is not None and treatments is not None and rule.fix.treatment not in treatments:
        hint = did_you_mean(rule.fix.treatment, treatments)
        yield f"{place}, fix: there is no treatment {show(rule.fix.treatment)}{hint}"


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
