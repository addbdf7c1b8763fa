"""The rules that ship and those of a person, whose repairs are checked against the treatments that there are."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import RuleBook, load_rules

__all__ = ["rulebook"]


@lru_cache(maxsize=8)
def rulebook(user: tuple[Path, ...] = ()) -> RuleBook:
    """The shipped rules and those of the folders `user`. Raises `UsageError` for a bad user rule."""
    if not user:
        return load_rules(rules_dir(), names=RULE_NAMES)
    from ckptdoctor.repair.plan.treatments_known import treatment_arguments  # only the rules of a person are checked

    return load_rules(rules_dir(), user, names=RULE_NAMES, treatments=treatment_arguments())
