"""Killed at any moment: no copy or the whole one, the source as it was, and a second run that works and clears up.

CKPTDOCTOR_KILLS says how many random moments are tried.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("CKPTDOCTOR_KILLS", "40"))

PROGRAM = """
import os, signal, sys
from pathlib import Path
from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.pieces import Literal, OutputFile, Range, whole
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.writing import guard_of, write_files

source, out, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def ignore(count):
    pass

def run():
    files = [whole(path.name, path, path.stat().st_size) for path in sorted(source.iterdir())]
    weights = source / "model-1.safetensors"
    parts = Range(weights, 7, 1000), Range(weights, 1000, weights.stat().st_size)
    files[1] = OutputFile("sub/model.safetensors", (Literal(b"new header"), *parts), like=weights)
    guard = guard_of(files)
    place = check_out(source, out)
    with Staging(place) as staging:
        written = write_files(files, staging.root, ignore, guard)
        compare(files, staging.root, ignore, 1 << 20, written.shared, guard)
        guard.check()
        staging.publish(source)

events = 0
WATCHED = ("open", "os.", "fcntl.", "shutil.")

def watch(event, arguments):
    global events
    if event.startswith(WATCHED) and watching:
        events += 1
        if events == last:
            os.kill(os.getpid(), signal.SIGKILL)

watching = False
sys.addaudithook(watch)
print("ready", flush=True)
watching = True
run()
watching = False
print(events)
"""


def make_source(folder: Path, size: int) -> Path:
    folder.mkdir()
    for name, share in {"config.json": 0.001, "model-1.safetensors": 0.6, "model-2.safetensors": 0.399}.items():
        (folder / name).write_bytes(random.Random(name).randbytes(int(size * share)))
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def state(folder: Path) -> list[tuple[object, ...]]:
    seen = [(path, path.lstat()) for path in sorted([folder, *folder.rglob("*")])]
    return [(p, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for p, s in seen]


def start(source: Path, out: Path, last: int = 0) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, source, out, str(last)], stdout=subprocess.PIPE, text=True, pipesize=4096
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    return run


def finish(source: Path, out: Path, whole: dict[str, str]) -> int:
    """A run that is not killed, on whatever the one before left; the calls that it made of the file system."""
    with start(source, out) as run:
        told, _ = run.communicate()
    assert run.returncode == 0
    assert contents(out) == whole
    assert list(out.parent.iterdir()) == [out]
    return int(told)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "new"


def expected(source: Path) -> dict[str, str]:
    weights = (source / "model-1.safetensors").read_bytes()
    return {
        "config.json": hashlib.sha256((source / "config.json").read_bytes()).hexdigest(),
        "model-2.safetensors": hashlib.sha256((source / "model-2.safetensors").read_bytes()).hexdigest(),
        "sub/model.safetensors": hashlib.sha256(b"new header" + weights[7:]).hexdigest(),
    }


def test_at_random_moments(tmp_path: Path, out: Path) -> None:
    source = make_source(tmp_path / "source", 30 << 20)
    before, whole = state(source), expected(source)
    with start(source, out) as run:
        began = time.monotonic()
        run.wait()
    span = time.monotonic() - began
    assert contents(out) == whole
    shutil.rmtree(out)
    moments, published, unfinished = random.Random(9), 0, 0
    for _ in range(KILLS):
        with start(source, out) as run:
            time.sleep(moments.uniform(0, 1.1 * span))
            run.kill()
        unfinished += run.returncode != 0
        if out.exists():
            assert contents(out) == whole
            published += 1
            shutil.rmtree(out)
        assert state(source) == before
    finish(source, out, whole)
    assert state(source) == before
    assert unfinished, "no run was killed before its end"


def test_before_each_call_of_the_file_system(tmp_path: Path, out: Path) -> None:
    source = make_source(tmp_path / "source", 20_000)
    before, whole = state(source), expected(source)
    calls = finish(source, out, whole)
    shutil.rmtree(out)
    assert calls > 20
    for last in range(1, calls + 1):
        with start(source, out, last) as run:
            pass
        assert run.returncode == -9
        if out.exists():
            assert contents(out) == whole
            shutil.rmtree(out)
        if last % 4 == 0:
            finish(source, out, whole)
            shutil.rmtree(out)
    finish(source, out, whole)
    assert state(source) == before
