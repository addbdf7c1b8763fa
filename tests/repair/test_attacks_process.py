"""Attacks on `fix` and `fix --undo` as whole commands: killed, robbed of its source, of its output or of its space.

CKPTDOCTOR_KILLS says how many random moments a run is killed at.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from repair_drafts import contents, fingerprint

from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.pieces import OutputFile, Range
from ckptdoctor.publish.writing import guard_of, write_files
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.undo import undo

KILLS = int(os.environ.get("CKPTDOCTOR_KILLS", "4"))
COMMAND = [sys.executable, "-c", "import sys; from ckptdoctor.cli.main import run; sys.exit(run())", "fix"]


def run(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, words)], stderr=subprocess.PIPE, text=True, check=False, **more)


def test_killed_at_random_moments_of_the_whole_command(source: Path, place: Path) -> None:
    out, before, moments = place / "new", fingerprint(source), random.Random(4)
    began = time.monotonic()
    run(source, "--out", out, stdout=subprocess.DEVNULL)
    span, whole = time.monotonic() - began, contents(out)
    shutil.rmtree(out)
    for _ in range(KILLS):
        killed = subprocess.Popen([*COMMAND, source, "--out", out], stdout=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.3, 1.1) * span)
        killed.kill()
        killed.wait()
        if out.exists():
            assert contents(out) == whole
            shutil.rmtree(out)
        assert fingerprint(source) == before
    run(source, "--out", out, stdout=subprocess.DEVNULL)
    assert contents(out) == whole
    assert list(place.iterdir()) == [out]


# Runs the command once for each moment at which it asks something of the file system, in a child each: the modules are
# read once. At that moment the source is attacked. Prints what came of it as JSON.
AT_EVERY_EVENT = """
import json, os, shutil, sys, time
from pathlib import Path
import numpy
from ckptdoctor.cli.main import run
import ckptdoctor.repair.fixing, ckptdoctor.report.fix.as_text, ckptdoctor.report.terminal.render

template, place, action, name, first, step = sys.argv[1:6] + [int(sys.argv[6])]
source, out = Path(place, "source"), Path(place, "out", "new")

def attack():
    target = source / name
    if action == "delete":
        target.unlink()
    elif action == "pipe":
        target.unlink()
        os.mkfifo(target)
    elif action == "replace":
        shutil.copyfile(target, source / "twin")
        (source / "twin").rename(target)
    elif action == "take-staging":
        for folder in out.parent.iterdir():
            shutil.rmtree(folder)

def child(last):
    seen, busy = 0, True
    def watch(event, arguments):
        nonlocal seen, busy
        ours = event.startswith(("os.", "fcntl.")) or (event == "open" and place in str(arguments[:1]))
        if busy or not ours:
            return
        seen += 1
        if seen == last:
            busy = True
            attack()
    sys.addaudithook(watch)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    log = os.open(Path(place, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    busy = False
    code = run(["fix", str(source), "--out", str(out)])
    busy = True
    os._exit(code if seen >= last else 77)

def trial(last):
    for folder in (source, out.parent):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, source)
    out.parent.mkdir()
    pid, began = os.fork(), time.monotonic()
    if not pid:
        child(last)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - began > 20:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return "hangs", ""
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(ended[1]), Path(place, "log").read_text()

results, moment = [], int(first)
while True:
    code, told = trial(moment)
    if code == 77:
        break
    results.append((moment, code, told, out.is_dir(), sorted(p.name for p in out.parent.iterdir())))
    moment += step
print(json.dumps(results))
"""


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("delete", "model.safetensors"),
        ("pipe", "model.safetensors"),
        ("pipe", "config.json"),
        ("replace", "config.json"),
        ("take-staging", ""),
    ],
)
def test_a_source_or_a_staging_that_goes_away(source: Path, tmp_path: Path, action: str, name: str) -> None:
    step = random.Random(f"{action} {name}").choice([17, 19, 23])
    first = random.Random(action).randint(1, 6)
    told = subprocess.run(
        [sys.executable, "-c", AT_EVERY_EVENT, source, tmp_path / "trials", action, name, str(first), str(step)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    results = json.loads(told)
    assert len(results) > 3
    for moment, code, sentence, published, names in results:
        assert code in (0, 1, 3), (moment, code, sentence)
        assert (code == 3) == bool(sentence), (moment, code, sentence)
        assert len(sentence.splitlines()) <= 1
        assert not (published and code == 3), (moment, sentence)
        assert names in ([], ["new"]), (moment, names)


def test_what_was_published_is_said_when_the_report_is_lost(source: Path, place: Path) -> None:
    for words, out in (((source,), place / "new"), (("--undo", place / "new"), place / "old")):
        with Path("/dev/full").open("w") as full:
            done = run(*words, "--out", out, stdout=full)
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
        assert f"what was to be written is at {out}, whole and verified" in done.stderr
        assert out.is_dir()


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(source: Path, place: Path, closed: str) -> None:
    out = place / "new"
    words = " ".join(f"'{word}'" for word in [*COMMAND, str(source), "--out", str(out)])
    assert subprocess.run(f"{words} {closed}", shell=True, stdout=subprocess.DEVNULL, check=False).returncode == 0
    receipt = json.loads((out / RECEIPT_NAME).read_text())
    assert (out / "config.json").read_bytes() == (source / "config.json").read_bytes()
    assert receipt["undo"]["reversible"]


def test_every_file_has_a_digest_on_both_sides(source: Path, place: Path) -> None:
    config = json.loads((source / "config.json").read_bytes())
    config["draft_vocab_size"] += 1  # the config is written anew: nothing of the old one is copied
    (source / "config.json").write_text(json.dumps(config))
    outcome = fix(source, place / "new")
    assert outcome.assembly is not None
    assert not next(file for file in outcome.assembly.files if file.name == "config.json").unchanged
    receipt = json.loads((place / "new" / RECEIPT_NAME).read_text())
    assert all(row["sha256"] for part in ("files", "tensors") for row in receipt["source"].get(part, ()))
    assert all(row["sha256"] for row in receipt["files"])
    restored = undo(place / "new", place / "old")
    assert not restored.unproven
    assert contents(place / "old") == contents(source)


def test_thousands_of_rows_need_few_descriptors(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_bytes(random.Random(1).randbytes(64 * 1024))
    pieces = tuple(Range(rows, at, at + 8) for at in range(0, 64 * 1024, 16))
    files, root = [OutputFile("head", pieces)], tmp_path / "root"
    root.mkdir()
    written = write_files(files, root, lambda _: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
    try:
        found = compare(files, root, lambda _: None, 1 << 20, written.shared, guard_of(files))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.compared == 32 * 1024
