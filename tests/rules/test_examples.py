"""Every rule that ships fires on its bad examples, and is judged and stays silent on its good ones."""

from __future__ import annotations

import pytest
from recipe_cases import RECIPES, Built

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import Rule, load_rules

RULES = list(load_rules(rules_dir(), names=RULE_NAMES))


def examples(kind: str) -> list[object]:
    """Each rule with each of its examples of `kind`, marked where the recipe wants torch."""
    return [
        pytest.param(rule, name, id=f"{rule.id}-{name}", marks=[pytest.mark.torch] if _wants_torch(name) else [])
        for rule in RULES
        for name in getattr(rule, kind)
    ]


def _wants_torch(name: str) -> bool:
    return name in RECIPES and RECIPES[name].needs_torch


def test_there_are_rules() -> None:
    assert len(RULES) > 80


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_a_bad_and_a_good_example(rule: Rule) -> None:
    assert rule.bad, f"{rule.id} has no example on which it fires"
    assert rule.good, f"{rule.id} has no example on which it stays silent"
    assert not set(rule.bad) & set(rule.good)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_examples_are_recipes(rule: Rule) -> None:
    assert [name for name in (*rule.bad, *rule.good) if name not in RECIPES] == []


@pytest.mark.parametrize(("rule", "name"), examples("bad"))
def test_a_rule_fires_on_its_bad_examples(rule: Rule, name: str, built: Built) -> None:
    fired = [f for f in built.scan(RECIPES[name]).findings if f.rule == rule.id]
    assert fired
    assert {f.severity for f in fired} == {rule.severity}


@pytest.mark.parametrize(("rule", "name"), examples("good"))
def test_a_rule_is_judged_and_silent_on_its_good_examples(rule: Rule, name: str, built: Built) -> None:
    examination = built.scan(RECIPES[name])
    assert [f.message for f in examination.findings if f.rule == rule.id] == []
    assert [skip.needs for skip in examination.skipped if skip.rule == rule.id] == []


def test_every_finding_that_a_recipe_expects_is_of_a_rule_that_names_it_or_a_rule_that_ships() -> None:
    known = {rule.id for rule in RULES}
    strange = {
        (name, rule)
        for name, recipe in RECIPES.items()
        for rule in {*recipe.expect, *(recipe.without or {})}
        if rule not in known
    }
    assert strange == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_recipes_that_expect_a_rule_include_its_bad_examples(rule: Rule) -> None:
    expecting = {name for name, recipe in RECIPES.items() if rule.id in recipe.expect}
    assert set(rule.bad) <= expecting
    assert not set(rule.good) & expecting


def test_good_examples_of_a_sick_kind_include_a_healthy_draft() -> None:
    healthy = {name for name, recipe in RECIPES.items() if recipe.wrong is None}
    assert [rule.id for rule in RULES if not set(rule.good) & healthy] == []


def test_rules_of_one_family_do_not_share_a_name_with_a_recipe_of_another() -> None:
    # A recipe named like a rule is that rule's bad example.
    names = {rule.name: rule for rule in RULES}
    assert [name for name in RECIPES if name in names and name not in names[name].bad] == []
