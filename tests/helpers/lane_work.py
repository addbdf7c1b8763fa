"""Work for the tests of lanes: importable, so that workers can do it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

__all__ = ["prepare", "work"]


def prepare(setup: str) -> None:
    """Nothing has to be loaded."""


def work(task: str, setup: str) -> str:
    """What the task says: an answer, a hang, a death, or a death the first time alone."""
    if task == "hang":
        time.sleep(600)
    if task == "search":  # Python's own code does not come to run in it
        re.fullmatch(r"(a+)+b", "a" * 60)
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "die once" and not Path(setup).exists():
        Path(setup).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    return f"{task} by {os.getpid()}"
