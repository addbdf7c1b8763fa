"""A rule fires on its kind, not only on its example: at other sizes, in another dialect; and not without the fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from builder.dialects import DIALECTS
from builder.recipes import Recipe
from recipe_cases import RECIPES, scan_of

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import Rule, load_rules

RULES = [rule for rule in load_rules(rules_dir(), names=RULE_NAMES) if rule.bad]
OTHER_SIZES = (
    {"hidden": 96, "intermediate": 160, "heads": 6, "kv_heads": 3, "vocab": 768, "draft_vocab": 192},
    {"hidden": 32, "intermediate": 48, "heads": 2, "kv_heads": 1, "vocab": 1000, "draft_vocab": 250},
)
# What a dialect is like when it is healthy, and the rule only notes: there is no fault to take away.
HABITS: frozenset[str] = frozenset({"VAL005", "SRV008", "SRV009"})
# Rules whose fault only one kind of draft can have, or whose recipe is written for one set of sizes, and why.
ONE_DIALECT: dict[str, str] = {
    "AUX009": "Model-Optimizer alone always records its ids, and has one dialect of EAGLE-3 drafts",
    "SRV008": "NeMo Automodel alone writes classes that no engine has; other trainers' are converted first",
    "GEO019": "EAGLE-1 alone has no field for a target of another width, and one dialect",
    "KEY025": "EAGLE-1 alone has eagle_fc_bias, and one dialect",
    "KEY026": "EAGLE-1 alone has classes without a place for a head, and one dialect",
    "BLK040": "Model-Optimizer alone captures as many layers as its draft has, and has one dialect of block drafters",
}
ONE_SIZE: dict[str, str] = {
    "AUX013": "far layers are those of one depth: the ids of its recipe are the first or the last of another one",
    "AUX015": "the same: the ids of its recipes are neither of the default layers at one depth",
}


def fires(rule: Rule, recipe: Recipe, folder: Iterator[Path]) -> bool:
    """Whether a scan of `recipe` has a finding of `rule`; False where it cannot be made so."""
    try:
        return rule.id in {finding.rule for finding in scan_of(recipe, next(folder)).findings}
    except (ValueError, KeyError, AssertionError):  # a mutation that this dialect or size does not know
        return False


def without_fault(recipe: Recipe) -> Recipe:
    """The recipe with nothing changed, the target and the sizes as the dialect has them, and nothing asked."""
    return replace(
        recipe, changes=(), target={} if recipe.target is not None else None, sizes={}, launch=None, engines=(),
        token_counts=None, head_reading=None,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """New folders, one after the other."""
    return (tmp_path / str(number) for number in count())


def bad(rule: Rule) -> list[Recipe]:
    """The recipes on which `rule` fires, those that need no torch first."""
    return sorted((RECIPES[name] for name in rule.bad), key=lambda recipe: recipe.needs_torch)


@pytest.mark.parametrize("rule", [r for r in RULES if r.id not in ONE_SIZE], ids=lambda rule: rule.id)
def test_a_rule_fires_at_other_sizes(rule: Rule, folder: Iterator[Path]) -> None:
    variants = (replace(r, sizes={**sizes, **r.sizes}) for r in bad(rule) for sizes in OTHER_SIZES)
    assert any(fires(rule, variant, folder) for variant in variants)


@pytest.mark.parametrize("rule", [r for r in RULES if r.id not in ONE_DIALECT], ids=lambda rule: rule.id)
def test_a_rule_fires_in_another_dialect(rule: Rule, folder: Iterator[Path]) -> None:
    recipes = bad(rule)
    if len({recipe.dialect for recipe in recipes}) > 1:
        return
    others = (replace(r, dialect=d) for r in recipes for d in DIALECTS if d != r.dialect)
    assert any(fires(rule, o, folder) and not fires(rule, without_fault(o), folder) for o in others)


@pytest.mark.parametrize("rule", [r for r in RULES if r.id not in HABITS], ids=lambda rule: rule.id)
def test_a_rule_is_silent_without_the_fault(rule: Rule, folder: Iterator[Path]) -> None:
    assert [r.id for r in bad(rule) if fires(rule, without_fault(r), folder)] == []


def test_the_exceptions_are_rules() -> None:
    assert {*HABITS, *ONE_DIALECT, *ONE_SIZE} <= {rule.id for rule in RULES}
