"""The sentences of a plan, from rules/repair/words: why a repair that could be made is not made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook.yamlfiles import read_shipped

__all__ = ["said"]


@lru_cache(maxsize=1)
def _words() -> Mapping[str, str]:
    words: Mapping[str, str] = read_shipped(rules_dir() / "repair" / "words" / "plan.yaml")
    return words


def said(key: str, /, **values: object) -> str:
    """The sentence `key`, with its blanks filled. What comes from files has to be made harmless before."""
    return _words()[key].format(**values)
