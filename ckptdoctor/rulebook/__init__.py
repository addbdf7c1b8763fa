"""Rules as data: loads rule files, judges facts by them, and gives findings. Knows no fact of its own."""

from __future__ import annotations

from ckptdoctor.rulebook.errors import RuleEvaluationError, RuleFileError
from ckptdoctor.rulebook.judging import Judgement, judge, judge_plans
from ckptdoctor.rulebook.loading import load_rules
from ckptdoctor.rulebook.rulebook import RuleBook
from ckptdoctor.rulebook.rules import FAMILIES, EffectSource, FixPlan, Rule

__all__ = [
    "FAMILIES",
    "EffectSource",
    "FixPlan",
    "Judgement",
    "Rule",
    "RuleBook",
    "RuleEvaluationError",
    "RuleFileError",
    "judge",
    "judge_plans",
    "load_rules",
]
