"""Sentences of the recorder: they stand in `rules/recorder/words.yaml`."""

from __future__ import annotations

import logging
import sys
from functools import lru_cache
from typing import Any

from ckptdoctor.sentences import Sentences
from ckptdoctor.text import show

__all__ = ["logger", "say"]

_WORDS = Sentences("recorder/words")
LONGEST = 2000
"""Characters of one value in a sentence."""


def say(group: str, kind: str, **values: Any) -> str:
    """One sentence or part of one, without a stop; values that are text are made safe for a log."""
    shown = {k: v if isinstance(v, (int, float)) else show(str(v), LONGEST) for k, v in values.items()}
    return _WORDS.say(group, kind, **shown)


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
