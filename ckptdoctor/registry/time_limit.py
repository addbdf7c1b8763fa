"""How long a gate may take for one tree: past that it refuses, and never waits without end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ckptdoctor.errors import UsageError
from ckptdoctor.limits import GATE_SECONDS
from ckptdoctor.text import show

__all__ = ["TimeIsUpError", "check_time", "gate_seconds", "time_limit"]

VARIABLE = "CKPTDOCTOR_GATE_SECONDS"

_end: ContextVar[float | None] = ContextVar("end", default=None)


class TimeIsUpError(BaseException):
    """The time is over. Not an `Exception`: nobody on the way may take it for damage of a file."""


def gate_seconds() -> int:
    """The seconds that a gate has, by the environment or by default. Raises `UsageError` for what is no number."""
    said = os.environ.get(VARIABLE, "")
    if not said:
        return GATE_SECONDS
    if not (said.isascii() and said.isdecimal() and len(said) < 8 and int(said)):
        raise UsageError(f"{VARIABLE}={show(said, 40)}: this is no number of seconds")
    return int(said)


def check_time() -> None:
    """Raise `TimeIsUpError` when the time of the gate around is over."""
    end = _end.get()
    if end is not None and time.monotonic() > end:
        raise TimeIsUpError


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUpError` in what is inside after `seconds`: at once in the main thread of a system with timers, and
    elsewhere (a server's threads) when `check_time` is asked next."""
    token = _end.set(time.monotonic() + seconds)
    timed = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, _ring) if timed else None
    try:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        _end.reset(token)


def _ring(*_: object) -> None:
    raise TimeIsUpError
