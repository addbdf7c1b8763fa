"""The same work on a Ray cluster: tasks of one core each, never more in flight than the cluster has cores."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, NoReturn, TypeVar

from ckptdoctor.audit.context import rules_mark
from ckptdoctor.audit.lanes import Done, Work
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import show

__all__ = ["RayCluster"]

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

_RETRIES = 3
"""How often Ray starts a task again whose worker or machine was lost."""

_GRACE = 10.0
_SLACK = 120.0
"""Seconds for the start of a worker, beside the time of the task."""


class _OverdueError(BaseException):
    """The time of a task is over. No `except Exception` on its way stops it."""


class RayCluster(Generic[T, S, R]):
    """The workers of the cluster at `address` (`auto`, `HOST:PORT`, `ray://HOST:10001`), with `limit` seconds a task.

    ckptdoctor must be installed there in the same version, and the paths must lead to the same files.
    """

    def __init__(self, work: Work[T, S, R], address: str, limit: float, started: Callable[[T], None]) -> None:
        self._work, self._limit, self._started = work, limit, started
        self._flying: dict[Any, tuple[T, float]] = {}
        self._ray = _connected(address)
        self.stuck = False

    def run(self, tasks: Iterator[T]) -> Iterator[Done[T, R]]:
        """The tasks that are done, in the order in which they are.

        Raises `CannotExamineError` when the workers have another ckptdoctor, or the cluster is gone.
        """
        ray = self._ray
        # By value: what is deserialised on a worker is this function alone, which imports the rest.
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_on_worker)
        with _cluster_problems(ray):
            setup = ray.put((self._work.prepare, self._work.setup))
            while True:
                room = max(1, int(ray.cluster_resources().get("CPU", 1)))
                while len(self._flying) < room:
                    task = next(tasks, None)
                    if task is None:
                        break
                    reference = remote.remote(self._work.run, task, [setup], self._limit, rules_mark())
                    self._flying[reference] = task, time.monotonic()
                    self._started(task)
                if not self._flying:
                    return
                ready, _ = ray.wait(list(self._flying), num_returns=1, timeout=1.0)
                for reference in ready:
                    yield self._ended(reference)
                yield from self._overdue()

    def close(self) -> None:
        """End what is in flight."""
        with contextlib.suppress(Exception):
            for reference in self._flying:
                self._ray.cancel(reference, force=True)
        self._flying.clear()

    def _ended(self, reference: Any) -> Done[T, R]:
        ray = self._ray
        task, since = self._flying.pop(reference)
        taken = time.monotonic() - since
        try:
            outcome, value = ray.get(reference)
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError):
            return Done(task, None, "crashed", taken)
        except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
            why = show(str(error).strip().splitlines()[-1], 300)
            raise CannotExamineError(f"--ray: the workers cannot run ckptdoctor ({why}); install it on them") from None
        if outcome == "other":
            raise CannotExamineError(
                f"--ray: the workers have another ckptdoctor or other rules ({show(value)}); install the same"
            )
        return Done(task, None, "timed_out", taken) if outcome == "timed_out" else Done(task, value, None, taken)

    def _overdue(self) -> Iterator[Done[T, R]]:
        """Tasks whose worker does not end itself in time."""
        for reference, (task, since) in list(self._flying.items()):
            taken = time.monotonic() - since
            if taken > (_RETRIES + 1) * (self._limit + 2 * _GRACE) + _SLACK:
                self._ray.cancel(reference, force=True)
                del self._flying[reference]
                yield Done(task, None, "timed_out", taken)


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs the package ray; install it with: pip install 'ckptdoctor[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # noqa: BLE001  # of many kinds: no such host, another version of Ray or Python
            why = show(str(error).strip().partition("\n")[0], 300)
            raise CannotExamineError(f"--ray {show(address)}: no Ray cluster answers there ({why})") from None
    return ray


@contextlib.contextmanager
def _cluster_problems(ray: Any) -> Iterator[None]:
    try:
        yield
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        why = show(str(error).strip().partition("\n")[0], 300)
        raise CannotExamineError(f"--ray: the cluster does not answer any more ({why}); start again to go on") from None


_PREPARED: dict[str, Any] = {}


def _on_worker(
    run: Callable[[Any, Any], Any], task: Any, setup: list[Any], limit: float, rules: str
) -> tuple[str, Any]:
    """On a worker: the outcome (`done`, `timed_out`, `other`) and the value."""
    import ray

    from ckptdoctor.version import __version__

    if rules_mark() != rules:
        return "other", __version__
    known = setup[0].hex()
    if known not in _PREPARED:
        prepare, value = ray.get(setup[0])
        prepare(value)
        _PREPARED.clear()
        _PREPARED[known] = value
    try:
        with _limited(limit):
            return "done", run(task, _PREPARED[known])
    except _OverdueError:
        return "timed_out", None


@contextlib.contextmanager
def _limited(limit: float) -> Iterator[None]:
    """End what is inside after `limit` seconds; where Python's own code does not come to run, end the process."""
    null = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(limit + _GRACE, exit=True, file=null)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, _overdue) if main else None
    try:
        if main:
            signal.setitimer(signal.ITIMER_REAL, limit)
        yield
    finally:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
        os.close(null)


def _overdue(*_: object) -> NoReturn:
    raise _OverdueError
