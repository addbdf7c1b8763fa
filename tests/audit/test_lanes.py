"""Workers that hang or die: their task is told, and nobody else's work is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from audit_trees import SICK, draft
from lane_work import prepare, work

from ckptdoctor.audit.lanes import Lanes, Work

ROOT = Path(__file__).parents[2]


def outcomes(tasks: list[str], tmp_path: Path, jobs: int = 2, limit: float = 30.0) -> dict[str, str]:
    lanes = Lanes(Work(work, prepare, str(tmp_path / "mark")), jobs, limit, lambda _: None)
    done = list(lanes.run(iter(tasks)))
    assert sorted(d.task for d in done) == sorted(tasks)
    assert not lanes.stuck
    return {d.task: d.failure or str(d.value).partition(" by ")[0] for d in done}


def test_a_worker_that_dies_takes_nothing_with_it(tmp_path: Path) -> None:
    tasks = ["one", "die", "two", "die once", "three", "four"]
    assert outcomes(tasks, tmp_path) == {
        "one": "one", "two": "two", "three": "three", "four": "four", "die": "crashed", "die once": "die once",
    }  # fmt: skip


def test_a_worker_that_is_killed_between_two_tasks_costs_nothing(tmp_path: Path) -> None:
    lanes = Lanes(Work(work, prepare, str(tmp_path)), 1, 30.0, lambda _: None)
    workers = []
    for done in lanes.run(iter(["one", "two", "three"])):
        workers.append(int(str(done.value).partition(" by ")[2]))
        os.kill(workers[-1], signal.SIGKILL)
    assert len(set(workers)) == 3


def test_a_task_that_hangs_is_ended(tmp_path: Path) -> None:
    tasks = ["hang", "search", "stop", "one"]
    assert outcomes(tasks, tmp_path, limit=2.0) == {
        "hang": "timed_out", "search": "timed_out", "stop": "timed_out", "one": "one",
    }  # fmt: skip


def test_never_more_tasks_are_begun_than_there_are_workers(tmp_path: Path) -> None:
    taken: list[int] = []
    tasks = (taken.append(n) or str(n) for n in range(10))  # type: ignore[func-returns-value]
    lanes = Lanes(Work(work, prepare, str(tmp_path)), 2, 30.0, lambda _: None)
    for number, _ in enumerate(lanes.run(tasks), 1):
        assert len(taken) <= number + 2
    assert len(taken) == 10


def children(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found |= {child, *children(child)}
    return found


def begun(root: Path, out: Path, lines: int) -> subprocess.Popen[str]:
    """An audit that has written so many lines."""
    command = [sys.executable, "-m", "ckptdoctor", "audit", str(root), "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_as_on_a_terminal,  # noqa: PLW1509  # no threads here
    )
    results = out / "results.jsonl"
    deadline = time.monotonic() + 120
    while not results.exists() or results.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def _as_on_a_terminal() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def many(tmp_path: Path, count: int) -> Path:
    for number in range(count):
        draft(tmp_path / "r" / f"{number:02d}", SICK)
    return tmp_path / "r"


def test_killed_in_the_middle_it_goes_on_and_leaves_no_process(tmp_path: Path) -> None:
    root, out = many(tmp_path, 16), tmp_path / "out"
    process = begun(root, out, 4)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    written = [line for line in (out / "results.jsonl").read_bytes().splitlines() if line.endswith(b"}")]
    assert len(written) < 16
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command = [sys.executable, "-m", "ckptdoctor", "audit", str(root), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{len(written)} results kept from before" in done.stdout
    assert "16 drafts: 16 with errors" in done.stdout
    after = (out / "results.jsonl").read_bytes().splitlines()
    assert len(after) == 16
    assert set(written) <= set(after)


def test_an_interrupt_ends_it_and_keeps_what_is_done(tmp_path: Path) -> None:
    root, out = many(tmp_path, 16), tmp_path / "out"
    process = begun(root, out, 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody in the foreground hears of it
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    assert "the same command goes on from there" in stderr
    assert "Traceback" not in stderr
    assert (out / "results.jsonl").read_bytes().count(b"\n") >= 2
