"""Attacks on `fix` and `fix --undo` as whole commands: killed, robbed of its source, of its output or of its space.

CKPTDOCTOR_KILLS says how many random moments a run is killed at.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from recipe_cases import RECIPES, Built
from repair_drafts import fingerprint

from ckptdoctor.checkpoint import jsonscan, read_json
from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError
from ckptdoctor.publish import publishing
from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.pieces import OutputFile, Range
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.writing import CannotWriteError, guard_of, write_files
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.undo import undo
from ckptdoctor.report import surface_for

KILLS = int(os.environ.get("CKPTDOCTOR_KILLS", "4"))
COMMAND = [sys.executable, "-c", "import sys; from ckptdoctor.cli.main import run; sys.exit(run())", "fix"]


@pytest.fixture
def source(built: Built, tmp_path: Path) -> Path:
    """A draft whose map holds target ids, with a sub-folder, an empty file and an empty folder beside it."""
    folder = tmp_path / "source"
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "notes.txt").write_text("kept")
    (folder / "empty").touch()
    (folder / "nothing").mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes() if path.is_file() else None
        if path.name == RECEIPT_NAME:
            receipt = json.loads(found[name])
            found[name] = {k: v for k, v in receipt.items() if k not in ("made", "knowledge", "source", "undo")}
    return found


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


class TestReceipts:
    """Receipts that no repair writes."""

    Change = Callable[[dict[str, Any]], None]

    @staticmethod
    def keeps_too_much(receipt: dict[str, Any]) -> None:
        lines = [base64.b64encode(zlib.compress(bytes(4 << 20))).decode()]
        row = receipt["undo"]["files"][0]
        row |= {"size": 400 << 20, "sha256": None, "pieces": [{"kept": lines, "length": 4 << 20}] * 100}

    @staticmethod
    def no_name_of_a_file(receipt: dict[str, Any]) -> None:
        receipt["undo"]["files"][0]["name"] = "\ud800"

    @staticmethod
    def folder_in_a_file(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["config.json/sub"]

    @staticmethod
    def folder_with_a_long_name(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["n" * 300]

    @staticmethod
    def folders_without_end(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["/".join("d" * 1900)]

    @pytest.mark.parametrize(
        "change",
        [keeps_too_much, no_name_of_a_file, folder_in_a_file, folder_with_a_long_name, folders_without_end],
    )
    def test_write_nothing(self, source: Path, place: Path, change: Change) -> None:
        self.receipt_of(source, place, change)
        with pytest.raises(CkptdoctorError) as caught:
            undo(place / "new", place / "old")
        assert caught.value.exit_code == 3
        assert [path.name for path in place.iterdir()] == ["new"]

    def test_of_a_newer_tool_say_so(self, source: Path, place: Path) -> None:
        self.receipt_of(source, place, lambda receipt: receipt.update(schema_version=2))
        with pytest.raises(UsageError, match="written by a newer ckptdoctor"):
            undo(place / "new", place / "old")

    def test_with_whole_numbers_as_floats(self, source: Path, place: Path) -> None:
        def floats(receipt: dict[str, Any]) -> None:
            for row in receipt["undo"]["files"]:
                row["mode"], row["size"] = float(row["mode"]), float(row["size"])
                for piece in row["pieces"]:
                    piece |= {key: float(value) for key, value in piece.items() if isinstance(value, int)}

        self.receipt_of(source, place, floats)
        undo(place / "new", place / "old")
        assert contents(place / "old") == contents(source)

    def test_may_hold_more_values_than_a_config(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jsonscan, "MAX_STEPS", 100)
        text = json.dumps(list(range(300))).encode()
        assert not read_json(text, "config.json").readable
        assert read_json(text, RECEIPT_NAME, room=4).readable

    @staticmethod
    def receipt_of(source: Path, place: Path, change: Change) -> None:
        fix(source, place / "new")
        path = place / "new" / RECEIPT_NAME
        receipt = json.loads(path.read_text())
        change(receipt)
        path.write_text(json.dumps(receipt))


class TestPlaces:
    """Where a copy may not go, and what happens when its place does not take it."""

    def test_not_the_folder_that_one_is_in(self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(place)
        with pytest.raises(UsageError, match="the folder that you are in"):
            check_out(source, ".")

    def test_not_the_blobs_of_a_cache(self, tmp_path: Path) -> None:
        cache = tmp_path / "models--a--b"
        (cache / "blobs").mkdir(parents=True)
        (cache / "snapshots" / "revision").mkdir(parents=True)
        with pytest.raises(UsageError, match="inside the source"):
            check_out(cache / "snapshots" / "revision", str(cache / "blobs" / "new"))

    def test_a_dangling_link_with_a_slash(self, source: Path, place: Path) -> None:
        (place / "link").symlink_to("nowhere")
        with pytest.raises(UsageError, match="a link that leads nowhere"):
            check_out(source, f"{place / 'link'}/")

    @pytest.mark.parametrize(("number", "there"), [(errno.EACCES, True), (errno.EIO, False)])
    def test_a_disk_that_does_not_confirm_the_name(
        self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: bool
    ) -> None:
        sync = publishing.sync_folder

        def fails(folder: Path) -> None:
            if folder == place:
                raise OSError(number, os.strerror(number))
            sync(folder)

        monkeypatch.setattr(publishing, "sync_folder", fails)
        if there:  # a folder that may be written to and not listed
            fix(source, place / "new")
        else:
            with pytest.raises(CannotWriteError):
                fix(source, place / "new")
        assert [path.name for path in place.iterdir()] == ["new"] * there

    def test_ctrl_c_while_clearing_up(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        remove = publishing._remove

        def interrupted(folder: Path) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            remove(folder)

        monkeypatch.setattr(publishing, "_remove", interrupted)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            pytest.skip("Ctrl-C is not Python's own here")
        with Staging(place / "new"):
            pass
        assert not list(place.iterdir())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_folders_without_files_on_a_full_disk(self, tmp_path: Path) -> None:
        files: Sequence[OutputFile] = [OutputFile("name", ())]
        with pytest.raises(CannotWriteError, match="the same name"):
            write_files(files, tmp_path, lambda _: None, folders=["name/sub"])


class TestSources:
    """Sources that are not copied, and why."""

    def test_folders_without_end(self, source: Path, place: Path) -> None:
        here = Path.cwd()
        try:
            os.chdir(source)
            for _ in range(1100):
                Path("d").mkdir()
                os.chdir("d")
        finally:
            os.chdir(here)
        with pytest.raises(CannotExamineError, match="nested more than 64 deep"):
            fix(source, place / "new")
        subprocess.run(["rm", "-r", source], check=True)  # deeper than Python can go

    def test_changed_while_the_repairs_were_found(
        self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from ckptdoctor.repair import fixing

        plan = fixing.plan_repair

        def slow(*words: Any) -> Any:
            found = plan(*words)
            os.truncate(source / "model.safetensors", 0)
            return found

        monkeypatch.setattr(fixing, "plan_repair", slow)
        with pytest.raises(CkptdoctorError, match=r"model\.safetensors: was changed while it was read"):
            fix(source, place / "new", select=["ART001"])
        assert not list(place.iterdir())


def test_a_comparison_on_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "root").mkdir()
    files = [OutputFile("config.json", (Range(tmp_path / "config.json", 0, 2),))]
    write_files(files, tmp_path / "root", lambda _: None)
    real = os.preadv

    def broken(descriptor: int, buffers: Any, at: int) -> int:
        if os.fstat(descriptor).st_ino == (tmp_path / "root" / "config.json").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffers, at)

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(VerificationError, match="cannot be read again"):
        compare(files, tmp_path / "root", lambda _: None, 1 << 20)


def test_no_way_back_is_promised_where_there_is_none(
    source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckptdoctor.repair import way_back
    from ckptdoctor.report.fix.as_text import fix_lines
    from ckptdoctor.report.terminal.render import render_lines

    def told(out: Path) -> str:
        return render_lines(fix_lines(fix(source, out), str(out), None), surface_for(None, "never"))

    assert "--undo" in told(place / "new")
    monkeypatch.setattr(way_back, "KEEP_LIMIT", 1)
    assert "--undo" not in told(place / "other")
    with pytest.raises(CannotExamineError, match="bytes of it are gone"):
        undo(place / "other", place / "old")
