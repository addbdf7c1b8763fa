"""The progress bar of long work: on stderr, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["bar", "counting", "reading"]

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done, and the bytes in all (0: not known)."""


@contextmanager
def bar() -> Iterator[Progress]:
    """A progress bar on a terminal, nothing elsewhere. A short job is over before it appears."""
    stderr: TextIO | None = sys.stderr  # None: closed by whoever started us
    if stderr is None or not stderr.isatty():
        yield lambda _what, _done, _all: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total or None)

        yield advance


@contextmanager
def counting() -> Iterator[Progress]:
    """A counter of things done on a terminal (of a whole, where that is known), nothing elsewhere."""
    stderr: TextIO | None = sys.stderr
    if stderr is None or not stderr.isatty():
        yield lambda _what, _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}"), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total or None)

        yield advance


@contextmanager
def reading(progress: Progress) -> Iterator[None]:
    """While it lasts, `progress` is told the bytes of weights that are read."""
    from ckptdoctor.facts.values.reading import reporting

    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, 0)

    with reporting(tell):
        yield
