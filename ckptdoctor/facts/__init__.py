"""Describe: an opened checkpoint and a target become facts, in the field's words. Measures, never judges."""

from ckptdoctor.facts.describe import FACT_NAMES, Facts, describe
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.files import Files
from ckptdoctor.facts.target import Target, read_target
from ckptdoctor.facts.tokenizer.tokens import Tokens
from ckptdoctor.facts.vocabulary.vocab import VocabMap

__all__ = ["FACT_NAMES", "Draft", "Facts", "Files", "Target", "Tokens", "VocabMap", "describe", "read_target"]
