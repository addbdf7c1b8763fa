"""How much work a call is, counted and not timed: calls of functions, those of C included."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["steps_of"]


def steps_of(call: Callable[[], Any]) -> int:
    """How many functions were called, and lines of Python were run, in `call`."""
    steps = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    def lines(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return lines

    before, traced = sys.getprofile(), sys.gettrace()
    sys.setprofile(count)
    sys.settrace(lines)
    try:
        call()
    finally:
        sys.settrace(traced)
        sys.setprofile(before)
    return steps
