"""Work on all cores of this machine, with a limit on the time of each task.

Each lane is a process pool of the standard library with one worker, so that it is always known which task a worker that
hangs or dies was at: nobody else's work is lost with it.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Done", "Lanes", "Work"]

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

_TRIES = 2
"""How often a task is given to a worker that dies over it."""

_GRACE = 10.0
"""Seconds that a worker may take to die, or to end by itself when nobody is left who would end it."""

_START = 120.0
"""Seconds that a worker may take to start."""

_CONTEXT = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


@dataclass(frozen=True)
class Work(Generic[T, S, R]):
    """What workers do: `prepare(setup)` once, then `run(task, setup)` for each task. All of it must be importable."""

    run: Callable[[T, S], R]
    prepare: Callable[[S], None]
    setup: S


@dataclass(frozen=True)
class Done(Generic[T, R]):
    """A task with its value, or with the `failure`: `timed_out`, or `crashed` (its worker died twice over it)."""

    task: T
    value: R | None
    failure: str | None
    seconds: float


@dataclass
class _Lane(Generic[T, R]):
    pool: ProcessPoolExecutor
    worker: Future[int]
    opened: float
    task: T | None = None
    result: Future[R] | None = None
    since: float = 0.0
    tries: int = 0
    killed: bool = False


class Lanes(Generic[T, S, R]):
    """`jobs` workers for `work`; a task that takes more than `limit` seconds is ended with its worker.

    `started` is called with each task that a worker begins.
    """

    def __init__(self, work: Work[T, S, R], jobs: int, limit: float, started: Callable[[T], None]) -> None:
        self._work, self._jobs, self._limit, self._started = work, jobs, limit, started
        self._lanes: list[_Lane[T, R]] = []
        self.stuck = False
        """Whether a worker is left that cannot be ended (it waits for a disk or a network for ever)."""

    def run(self, tasks: Iterator[T]) -> Iterator[Done[T, R]]:
        """The tasks that are done, in the order in which they are; never more of them begun than there are workers."""
        try:
            while True:
                for number in range(self._jobs):
                    self._fill(number, tasks)
                busy = {lane.result: lane for lane in self._lanes if lane.result is not None}
                if not busy:
                    return
                first = min(lane.since for lane in busy.values()) + self._limit
                ready, _ = wait(busy, max(0.0, min(first - time.monotonic(), 1.0)), FIRST_COMPLETED)
                for future in ready:
                    done = self._ended(busy[future])
                    if done is not None:
                        yield done
                for lane in list(self._lanes):
                    done = self._overdue(lane)
                    if done is not None:
                        yield done
        finally:
            self.close()

    def close(self) -> None:
        """End all workers, whatever they are at."""
        for lane in self._lanes:
            self._kill(lane)
        self._lanes.clear()

    def _fill(self, number: int, tasks: Iterator[T]) -> None:
        """Give the lane `number` a task, if it has none. A lane is only opened when there is one for it."""
        if number < len(self._lanes) and self._lanes[number].result is not None:
            return
        task = next(tasks, None)
        if task is None:
            return
        if number >= len(self._lanes):
            self._lanes.append(self._open())
        self._give(self._lanes[number], task, 1)

    def _open(self) -> _Lane[T, R]:
        with _without_interrupts():
            multiprocessing.set_forkserver_preload([self._work.run.__module__])
            pool = ProcessPoolExecutor(
                1, multiprocessing.get_context(_CONTEXT), _begin, (self._work.prepare, self._work.setup)
            )
            return _Lane(pool, pool.submit(os.getpid), time.monotonic())

    def _give(self, lane: _Lane[T, R], task: T, tries: int) -> None:
        lane.task, lane.tries, lane.since = task, tries, time.monotonic()
        try:
            lane.result = lane.pool.submit(_one, self._work.run, task, self._limit)
        except BrokenProcessPool:  # it died between two tasks
            self._renew(lane)
            lane.result = lane.pool.submit(_one, self._work.run, task, self._limit)
        self._started(task)

    def _ended(self, lane: _Lane[T, R]) -> Done[T, R] | None:
        task, result, since = lane.task, lane.result, lane.since
        assert task is not None
        assert result is not None
        lane.task = lane.result = None
        try:
            return Done(task, result.result(), None, time.monotonic() - since)
        except BrokenProcessPool:
            tries, killed = lane.tries, lane.killed
            self._renew(lane)
            if killed:
                return Done(task, None, "timed_out", time.monotonic() - since)
            if tries < _TRIES:
                self._give(lane, task, tries + 1)
                return None
            return Done(task, None, "crashed", time.monotonic() - since)

    def _overdue(self, lane: _Lane[T, R]) -> Done[T, R] | None:
        """End the worker of a task that takes too long; one that does not die of it is left behind."""
        if lane.result is None or lane.result.done():
            return None
        if not lane.worker.done() and time.monotonic() - lane.opened < _START:
            lane.since = time.monotonic()  # the start of the worker is not the task's time
        late = time.monotonic() - lane.since - self._limit
        if late < 0:
            return None
        if not lane.killed:
            lane.killed = True
            self._end_worker(lane)
        if late < _GRACE:
            return None
        task = lane.task
        assert task is not None
        self.stuck = True
        self._lanes[self._lanes.index(lane)] = self._open()
        return Done(task, None, "timed_out", time.monotonic() - lane.since)

    def _renew(self, lane: _Lane[T, R]) -> None:
        lane.pool.shutdown(wait=False, cancel_futures=True)
        fresh = self._open()
        lane.pool, lane.worker, lane.opened, lane.killed = fresh.pool, fresh.worker, fresh.opened, False

    def _kill(self, lane: _Lane[T, R]) -> None:
        if lane.result is not None and not lane.result.done():
            self._end_worker(lane)
        lane.pool.shutdown(wait=False, cancel_futures=True)

    def _end_worker(self, lane: _Lane[T, R]) -> None:
        with suppress(Exception):
            pid = lane.worker.result(timeout=_GRACE)
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C is for this process alone: what starts meanwhile never hears of it, and is ended by us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_SETUP: list[Any] = []


def _begin(prepare: Callable[[S], None], setup: S) -> None:
    """The first thing in a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # what libraries print belongs neither into the report nor into the progress
        os.dup2(null, number)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    prepare(setup)
    _SETUP[:] = [setup]


def _follow(parent: Any) -> None:
    """A worker whose audit was killed has nobody left to tell it to end."""
    parent.join()
    os._exit(1)


def _one(run: Callable[[T, S], R], task: T, limit: float) -> R:
    # Ends this process even where Python's own code does not come to run (a long search of a pattern, a reader in C)
    # and the audit is not there any more to do it.
    faulthandler.dump_traceback_later(limit + 2 * _GRACE, exit=True, file=2)
    try:
        return run(task, _SETUP[0])
    finally:
        faulthandler.cancel_dump_traceback_later()
