"""Sentences of the recorder: they stand in `rules/recorder/words.yaml`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from ckptdoctor.resources import rules_dir
from ckptdoctor.text import show

__all__ = ["logger", "numbers", "say"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LONGEST = 2000
"""Characters of one value in a sentence."""


def say(group: str, kind: str, **values: Any) -> str:
    """One sentence or part of one, without a stop; values that are text are made safe for a log."""
    shown = {k: v if isinstance(v, (int, float)) else show(str(v), LONGEST) for k, v in values.items()}
    return _words()[group][kind].format_map(shown)


def numbers(values: Any) -> str:
    """`[2, 18, 33]`."""
    return f"[{', '.join(str(v) for v in values)}]"


@lru_cache(maxsize=1)
def logger() -> logging.Logger:
    """The recorder's logger. It brings its own handler to stderr: vLLM shows warnings of other packages only."""
    made = logging.getLogger("ckptdoctor.recorder")
    if not made.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        made.addHandler(handler)
        made.propagate = False
    made.setLevel(logging.INFO)
    return made


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Mapping[str, str]]:
    text = (rules_dir() / "recorder" / "words.yaml").read_text(encoding="utf-8")
    words: Mapping[str, Mapping[str, str]] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, in C
    return words
