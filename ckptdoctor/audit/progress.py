"""Tells the person how an audit goes on: a bar on a terminal, nothing in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ckptdoctor.text import show

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ckptdoctor.audit.auditing import Watch

__all__ = ["watching"]

_PHASES = {"listing": "looking for drafts", "models": "looking at models", "drafts": "scanning drafts"}
_KEY_LIMIT = 40
_RUNNING_SHOWN = 2


@contextmanager
def watching() -> Iterator[Watch]:
    """Who tells the person: a bar on stderr where that is a terminal, else nobody."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        TextColumn("{task.fields[running]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress)


class _Silent:
    def phase(self, name: str, total: int | None) -> None:
        """Nothing is told."""

    def began(self, key: str) -> None:
        """Nothing is told."""

    def ended(self, key: str) -> None:
        """Nothing is told."""


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._running: dict[str, None] = {}

    def phase(self, name: str, total: int | None) -> None:
        """A bar of its own for each phase."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._running.clear()
        self._task = self._progress.add_task(_PHASES[name], total=total, rate="", running="")

    def began(self, key: str) -> None:
        """Name it beside the bar."""
        self._running[key] = None
        self._update(0)

    def ended(self, key: str) -> None:
        """One step of the bar."""
        self._running.pop(key, None)
        self._update(1)

    def _update(self, step: int) -> None:
        if self._task is None:
            return
        names = [show(key[-_KEY_LIMIT:]) for key in list(self._running)[:_RUNNING_SHOWN]]
        speed = self._progress.tasks[-1].speed
        rate = "" if speed is None else f"{speed:.1f}/s"
        self._progress.update(self._task, advance=step, rate=rate, running=", ".join(names))
