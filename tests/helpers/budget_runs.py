"""The command run as a process with limits that the system holds it to: an input that has no end fails the test."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Run", "run_bounded"]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """How a run ended; `seconds` are of processor time, with its children's, `memory` the bytes of the largest."""

    code: int
    out: str
    err: str
    seconds: float
    memory: int


def run_bounded(*words: object, seconds: int = 20, memory: int = 2 << 30, stdin: str | None = None) -> Run:
    """`ckptdoctor WORDS` with at most `seconds` of processor time and `memory` bytes of address space for each process.

    The bounds are far above what is promised, so that a slow machine fails no test; no end at all does.
    """

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        given.write((stdin or "").encode())
        given.seek(0)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "ckptdoctor", *map(str, words)],
            stdin=given,
            stdout=out,
            stderr=err,
            preexec_fn=bound,  # noqa: PLW1509 - no thread of the tests is at work here
            env=environment,
            cwd="/",
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Run(
            process.returncode,
            out.read().decode(),
            err.read().decode(),
            used.ru_utime + used.ru_stime,
            used.ru_maxrss * 1024,
        )


def findings(run: Run) -> list[tuple[str, str]]:
    """The rules and messages of a scan with `--format json`."""
    report = json.loads(run.out)
    return [(f["rule"], f["message"]) for c in report["checkpoints"] for f in c["findings"]]
