"""The group and the entry point inside this process: suggestions, sentences, exit codes, the log."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import ckptdoctor
from ckptdoctor.cli.main import main, run
from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError

Capture = pytest.CaptureFixture[str]


def test_version(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"ckptdoctor {ckptdoctor.__version__}\n"


COMMANDS = ("scan", "plan", "compat", "explain", "rules", "engines")


@pytest.mark.parametrize("args", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help(capsys: Capture, args: list[str]) -> None:
    assert run(args) == 0
    out, err = capsys.readouterr()
    assert out.startswith(" ".join(["Usage: ckptdoctor", *args[:-1]]))
    assert err == ""


def test_the_commands_have_whole_sentences_in_the_list(capsys: Capture) -> None:
    run(["--help"])
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_no_arguments_is_wrong_usage_and_shows_the_help(capsys: Capture) -> None:
    assert run([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: ckptdoctor")


@pytest.mark.parametrize("word", ["no/such", "hf://org/name", "./draft", "/"])
def test_a_bare_path_suggests_scan(capsys: Capture, word: str) -> None:
    assert run([word, "--format", "json"]) == 2
    assert f"did you mean: ckptdoctor scan {word} --format json\n" in capsys.readouterr().err


def test_a_bare_name_of_a_folder_suggests_scan(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my draft").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["my draft"]) == 2
    assert "did you mean: ckptdoctor scan 'my draft'\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("scna", "ckptdoctor: there is no command 'scna'; did you mean scan?\n"),
        ("explian", "ckptdoctor: there is no command 'explian'; did you mean explain?\n"),
        ("zzzz", "ckptdoctor: there is no command 'zzzz'\n"),
        ("a\0b", "ckptdoctor: there is no command 'a\\x00b'\n"),
        ("x" * 300, f"ckptdoctor: there is no command '{'x' * 300}'\n"),
    ],
)
def test_an_unknown_command(capsys: Capture, word: str, sentence: str) -> None:
    assert run([word]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(sentence)


@pytest.mark.parametrize("args", [["--nope"], ["scan"], ["scan", "--nope", "x"], ["explain"]])
def test_wrong_usage(capsys: Capture, args: list[str]) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"ckptdoctor: .+\n  Try `ckptdoctor[a-z ]* --help`\.\n", err)


def test_wrong_usage_in_the_runner(runner: CliRunner) -> None:
    assert runner.invoke(main, ["scna"]).exit_code == 2
    assert runner.invoke(main, ["no/such"]).exit_code == 2
    assert runner.invoke(main, []).exit_code == 2


def test_a_hostile_argument_is_printed_harmlessly(capsys: Capture) -> None:
    assert run(["scan", "--x\x1b[31m\u202e", "y"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("there is no rule KEX001"), 2),
        (CannotExamineError("draft: no such path"), 3),
        (CkptdoctorError("no space"), 3),
    ],
)
def test_an_expected_error_is_one_sentence(capsys: Capture, fake_scan: Any, error: Exception, code: int) -> None:
    fake_scan.error = error
    assert run(["scan", "draft"]) == code
    assert capsys.readouterr() == ("", f"ckptdoctor: {error}\n")


def test_an_error_of_several_lines(capsys: Capture, fake_scan: Any) -> None:
    fake_scan.error = UsageError("2 problems:\n  one\x1b\n  two")
    assert run(["scan", "draft"]) == 2
    assert capsys.readouterr().err == "ckptdoctor: 2 problems:\n  one\\x1b\n  two\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interrupted(capsys: Capture, fake_scan: Any, error: BaseException) -> None:
    fake_scan.error = error
    assert run(["scan", "draft"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == "ckptdoctor: interrupted"


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "error", [ValueError("a\x1bb \udce9"), RecursionError(), EOFError("short"), MemoryError(), OSError(5, "Input")]
)
def test_an_error_of_ours(capsys: Capture, fake_scan: Any, temp: Path, error: Exception) -> None:
    fake_scan.error = error
    assert run(["scan", "my draft"]) == 4
    (log,) = temp.iterdir()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip().splitlines() == [
        f"ckptdoctor: an error of ckptdoctor's own ({type(error).__name__}); "
        f"a log ready to paste into a report is at {log}"
    ]
    assert re.fullmatch(r"ckptdoctor-error-\w+\.log", log.name)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text(encoding="utf-8")
    assert text.startswith(f"ckptdoctor {ckptdoctor.__version__}\npython     3.")
    assert "\ncommand    ckptdoctor scan 'my draft'\n" in text
    assert "\n```\nTraceback (most recent call last):\n" in text
    assert f"\n{type(error).__name__}" in text
    assert "\x1b" not in text


def test_no_room_for_the_log(capsys: Capture, fake_scan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    fake_scan.error = ValueError("bad value")
    assert run(["scan", "draft"]) == 4
    err = capsys.readouterr().err
    assert err.startswith("ckptdoctor: an error of ckptdoctor's own (ValueError: bad value); no log could be written")
    assert err.count("\n") == 1


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from ckptdoctor.cli.main import run\n"
        "run(['--help']); run(['--version'])\n"
        "heavy = 'rich numpy yaml jsonschema simpleeval torch ckptdoctor.scanning ckptdoctor.report'\n"
        "print([m for m in heavy.split() if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr == ""
