"""`ckptdoctor scan`: options, exit codes, and what goes to which stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ckptdoctor.cli.main import main
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.findings import Report
from ckptdoctor.policy import NO_POLICY

MakeReport = Callable[..., Report]


def scan(runner: CliRunner, *args: str) -> Result:
    return runner.invoke(main, ["scan", *args])


def test_defaults(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    fake_scan.report = make_report()
    result = scan(runner, "draft")
    assert result.exit_code == 0
    assert result.stdout == "draft: EAGLE-3 draft\n\n  Nothing to report.\n\n  no findings\n"
    assert result.stderr == ""
    assert fake_scan.calls == [
        {
            "paths": ["draft"],
            "target": None,
            "rules": [],
            "select": [],
            "ignore": [],
            "engines": [],
            "launch": None,
            "trained_with": None,
            "captured_with": None,
            "token_counts": None,
            "deep": False,
            "against": None,
            "policy": NO_POLICY,
            "baseline": None,
            "illustrated": False,
        }
    ]


def test_all_options(runner: CliRunner, fake_scan: Any, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    result = scan(
        runner, "a", "hf://b/c", "--target", "t", "--rules", str(one), "--rules", str(two),
        "--select", "KEY001,GEO, AUX002", "--select", "VOC", "--ignore", "GEO001,", "--fail-on", "note",
        "--color", "never", "--format", "json", "--engine", "sglang==0.5.9, vllm", "--engine", "installed",
        "--launch", "python -m sglang.launch_server", "--token-counts", "counts.json",
        "--trained-with", "specforge", "--captured-with", "sglang==0.5.9", "--deep", "--against", "old",
    )  # fmt: skip
    assert result.exit_code == 0
    assert fake_scan.calls == [
        {
            "paths": ["a", "hf://b/c"],
            "target": "t",
            "rules": [one, two],
            "select": ["KEY001", "GEO", "AUX002", "VOC"],
            "ignore": ["GEO001"],
            "engines": ["sglang==0.5.9", "vllm", "installed"],
            "launch": "python -m sglang.launch_server",
            "trained_with": "specforge",
            "captured_with": "sglang==0.5.9",
            "token_counts": "counts.json",
            "deep": True,
            "against": "old",
            "policy": NO_POLICY,
            "baseline": None,
            "illustrated": False,
        }
    ]


@pytest.mark.parametrize(
    ("severities", "fail_on", "code"),
    [
        ((), "error", 0),
        ((), "note", 0),
        (("error",), "error", 1),
        (("warning",), "error", 0),
        (("note",), "error", 0),
        (("warning",), "warning", 1),
        (("error",), "warning", 1),
        (("note",), "warning", 0),
        (("note",), "note", 1),
        (("error", "note"), "note", 1),
        (("error", "warning", "note"), "never", 0),
    ],
)
def test_exit_codes(
    runner: CliRunner,
    fake_scan: Any,
    make_report: MakeReport,
    severities: tuple[str, ...],
    fail_on: str,
    code: int,
) -> None:
    fake_scan.report = make_report(*severities)
    assert scan(runner, "draft", "--fail-on", fail_on).exit_code == code


def test_errors_fail_by_default(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    fake_scan.report = make_report("error")
    assert scan(runner, "draft").exit_code == 1


def test_what_is_not_certain_does_not_fail(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    """The exit code and the report speak of the same severities."""
    fake_scan.report = make_report("error", confidence="likely")
    result = scan(runner, "draft")
    assert "1 warning" in result.stdout
    assert result.exit_code == 0
    assert scan(runner, "draft", "--fail-on", "warning").exit_code == 1


@pytest.mark.parametrize("fail_on", ["error", "never"])
@pytest.mark.parametrize("severities", [(), ("error",)])
def test_a_failed_path_wins(
    runner: CliRunner, fake_scan: Any, make_report: MakeReport, severities: tuple[str, ...], fail_on: str
) -> None:
    fake_scan.report = make_report(*severities, failed=(("gone", "no such path"),))
    result = scan(runner, "draft", "gone", "--fail-on", fail_on)
    assert result.exit_code == 3
    assert "could not examine gone: no such path\n" in result.stdout
    assert result.stderr == ""


def test_json_on_stdout_and_failures_on_stderr_too(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    fake_scan.report = make_report("error", failed=(("go\x1bne", "no such path"),))
    result = scan(runner, "draft", "--format", "json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["failed"] == [{"path": "go\x1bne", "reason": "no such path"}]
    assert result.stderr == "ckptdoctor: could not examine go\\x1bne: no such path\n"


def test_forced_colour(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    fake_scan.report = make_report("error")
    result = runner.invoke(main, ["scan", "draft", "--color", "always"], env={"NO_COLOR": "1"})
    assert "\x1b[" in result.stdout
    assert "\x1b" not in scan(runner, "draft").stdout


def test_colour_leaves_json_alone(runner: CliRunner, fake_scan: Any, make_report: MakeReport) -> None:
    fake_scan.report = make_report("error")
    assert json.loads(scan(runner, "draft", "--color", "always", "--format", "json").stdout)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("draft", "--format", "sarif-ish"),
        ("draft", "--fail-on", "fatal"),
        ("draft", "--color", "blue"),
        ("draft", "--rules", "no/such/folder"),
        ("draft", "--no-such-option"),
        ("draft", "--target"),
    ],
)
def test_wrong_usage(runner: CliRunner, fake_scan: Any, args: tuple[str, ...]) -> None:
    assert scan(runner, *args).exit_code == 2
    assert fake_scan.calls == []


@pytest.mark.parametrize("error", [UsageError("no rule KEX001"), CannotExamineError("the target is unreadable")])
def test_expected_errors_reach_the_entry_point(runner: CliRunner, fake_scan: Any, error: Exception) -> None:
    fake_scan.error = error
    assert scan(runner, "draft").exception is error


@pytest.mark.usefixtures("real_scan")
def test_a_real_folder(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}', encoding="utf-8")
    header = b'{"fc.weight":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}}'
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(6))
    result = scan(runner, str(tmp_path), "--format", "json")
    assert result.exit_code in {0, 1}, result.exception or result.output
    assert json.loads(result.stdout)["checkpoints"][0]["path"] == str(tmp_path)


@pytest.mark.usefixtures("real_scan")
def test_a_real_missing_path(runner: CliRunner, tmp_path: Path) -> None:
    result = scan(runner, str(tmp_path / "gone"))
    assert result.exit_code == 3, result.output
    assert "could not examine" in result.stdout


@pytest.mark.usefixtures("real_scan")
def test_a_real_unknown_rule(runner: CliRunner, tmp_path: Path) -> None:
    assert isinstance(scan(runner, str(tmp_path), "--select", "NOPE999").exception, UsageError)
