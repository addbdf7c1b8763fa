"""The sentences of a plan, from rules/repair/words: why a repair that could be made is not made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from ckptdoctor.resources import rules_dir

__all__ = ["said"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=1)
def _words() -> Mapping[str, str]:
    text = (rules_dir() / "repair" / "words" / "plan.yaml").read_text(encoding="utf-8")
    words: Mapping[str, str] = yaml.load(text, Loader=_LOADER)  # noqa: S506  # a safe loader, in C
    return words


def said(key: str, /, **values: object) -> str:
    """The sentence `key`, with its blanks filled. What comes from files has to be made harmless before."""
    return _words()[key].format(**values)
