"""The recorder's own thread: waits for copies, plans and writes, while the engine goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

__all__ = ["Worker"]

WAITING = 8
"""Jobs that may wait; a pass that finds more is not looked at."""


class Worker:
    """Runs jobs one after the other in a daemon thread that starts with the first one."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        self._failed = failed
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        return self._jobs.unfinished_tasks >= WAITING

    def do(self, job: Callable[[], None]) -> None:
        """Queues a job; never waits."""
        self._jobs.put(job)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ckptdoctor-recorder", daemon=True)
                self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until all jobs are done, at most so long; whether they are."""
        with self._jobs.all_tasks_done:
            return self._jobs.all_tasks_done.wait_for(lambda: not self._jobs.unfinished_tasks, seconds)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception as error:  # noqa: BLE001 - said once by the owner; the thread belongs to an engine
                self._failed(error)
            finally:
                del job  # it holds the model
                self._jobs.task_done()
