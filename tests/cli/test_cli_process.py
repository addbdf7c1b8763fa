"""The command as a process of its own: pipes, signals, encodings, terminals."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

# Runs `run()` with a stand-in for the examination; `WHAT` chooses what it does.
DRIVER = r"""
import os, sys, time, types
from ckptdoctor.cli.main import run
from ckptdoctor.findings import Confidence, Examination, Finding, Report, Severity

def scan_paths(paths, **options):
    what = os.environ["WHAT"]
    if what == "wait":
        print("waiting", file=sys.stderr, flush=True)
        time.sleep(60)
    if what == "bug":
        raise ZeroDivisionError("of ours")
    many = 5000 if what == "many" else 1
    said = ("a-name", Severity.ERROR, Confidence.CERTAIN, "naïve 模 message", "e", "a")
    findings = tuple(Finding(f"KEY{number:03}", *said) for number in range(4, 4 + many))
    draft = {"algorithm": "eagle3", "dialect": "hf"}
    return Report((Examination(paths[0], "EAGLE-3 draft", draft, None, findings, ()),))

module = types.ModuleType("ckptdoctor.scanning")
module.scan_paths = scan_paths
sys.modules["ckptdoctor.scanning"] = module
sys.exit(run())
"""


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"}}
    root = str(Path(__file__).parents[2])
    return {**kept, "PYTHONPATH": root, "WHAT": "one", "TERM": "xterm", **extra}


def start(*args: str, env: Mapping[str, str], stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", DRIVER, *args],
        env=dict(env),
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=_as_on_a_terminal,  # noqa: PLW1509  # no threads here
    )


def _as_on_a_terminal() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_findings_exit_with_1() -> None:
    code, out, err = finish(start("scan", "draft", env=environment()))
    assert (code, err) == (1, b"")
    assert "naïve 模 message".encode() in out
    assert b"\x1b" not in out


@pytest.mark.parametrize("args", [("scan", "draft"), ("scan", "draft", "--color", "always")])
def test_an_ascii_terminal(args: tuple[str, ...]) -> None:
    code, out, err = finish(start(*args, env=environment(PYTHONIOENCODING="ascii")))
    assert (code, err) == (1, b"")
    assert b"na\\xefve \\u6a21 message" in out


def test_a_path_that_is_no_text() -> None:
    code, out, err = finish(start("scan", os.fsdecode(b"dr\xe9ft"), env=environment()))
    assert (code, err) == (1, b"")
    assert b"dr\\udce9ft" in out
    code, out, err = finish(start("scan", os.fsdecode(b"dr\xe9ft"), "--format", "json", env=environment()))
    assert os.fsencode(json.loads(out)["checkpoints"][0]["path"]) == b"dr\xe9ft"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("args", [("scan", "draft"), ("scan", "draft", "--format", "json")])
def test_a_reader_that_stops_early(args: tuple[str, ...], unbuffered: str) -> None:
    process = start(*args, env=environment(WHAT="many", PYTHONUNBUFFERED=unbuffered))
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stream:
        assert stream.read() == b""
    assert process.wait(60) == 141


def test_a_reader_that_was_never_there() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, _, err = finish(start("--help", env=environment(), stdout=writer))
    finally:
        os.close(writer)
    assert (code, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk() -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start("scan", "draft", env=environment(), stdout=full.fileno()))
    assert code == 3
    assert err == f"ckptdoctor: the output could not be written: {os.strerror(errno.ENOSPC)}\n".encode()


def test_ctrl_c() -> None:
    process = start("scan", "draft", env=environment(WHAT="wait"))
    assert process.stderr is not None
    assert process.stderr.readline() == b"waiting\n"
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, b"")
    assert err.strip() == b"ckptdoctor: interrupted"


def test_an_error_of_ours(tmp_path: Path) -> None:
    code, out, err = finish(start("scan", "draft", env=environment(WHAT="bug", TMPDIR=str(tmp_path))))
    (log,) = tmp_path.glob("ckptdoctor-error-*.log")
    assert (code, out) == (4, b"")
    assert os.fsencode(log) in err
    assert b"Traceback" not in err
    assert "ZeroDivisionError: of ours" in log.read_text(encoding="utf-8")


def on_terminal(*args: str, **env: str) -> str:
    """What a terminal gets from the command."""
    ours, theirs = pty.openpty()
    process = start(*args, env=environment(**env), stdout=theirs)
    os.close(theirs)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    _, _, err = finish(process)
    assert err == b""
    return out.decode().replace("\r\n", "\n")


def test_colours_on_a_terminal() -> None:
    text = on_terminal("scan", "draft")
    assert "\x1b[" in text
    assert "KEY004" in text


@pytest.mark.parametrize(
    ("args", "env"),
    [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}), (("--color", "never"), {}), (("--format", "json"), {})],
)
def test_no_colours_on_a_terminal(args: tuple[str, ...], env: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal("scan", "draft", *args, **env)


@pytest.mark.parametrize(("columns", "width"), [("20", 60), ("75", 75), ("300", 110)])
def test_the_width_of_the_terminal(columns: str, width: int) -> None:
    text = on_terminal("scan", "/".join(["directory"] * 40), NO_COLOR="1", COLUMNS=columns)
    widest = max(map(len, text.splitlines()))
    assert width - 10 <= widest <= width


def test_python_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ckptdoctor", "--version"], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ckptdoctor ")
