"""`ckptdoctor scan --engine` and `--launch` on the real drafts: plans, findings and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_drafts import HOSTILE_NAMES, NAMES, REPORT, copy, draft, target, unsafe

from ckptdoctor.cli.main import run
from ckptdoctor.serving import contracts

Capture = pytest.CaptureFixture[str]

LLAMA = "mo_eagle3_llama"


def scan(capsys: Capture, path: str, *args: str) -> tuple[int, str]:
    """Exit code and stdout; nothing may go to stderr."""
    code = run(["scan", path, *args])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def scan_json(capsys: Capture, path: str, *args: str) -> dict[str, Any]:
    """The one checkpoint of a report that was held to the schema."""
    _, out = scan(capsys, path, *args, "--format", "json")
    report = json.loads(out)
    REPORT.validate(report)
    (found,) = report["checkpoints"]
    return dict(found)


def unfolded(text: str) -> str:
    return re.sub(r"\n +", " ", text)


def test_a_broken_release_is_an_error_and_another_is_none(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--engine")
    code, out = scan(capsys, draft(LLAMA), *args, "sglang==0.5.9")
    assert code == 1
    assert "\n  1 error\n\n    KEY017 parameters-left-initial\n" in out
    assert "      on: sglang==0.5.9\n" in out
    assert "\n  serving\n    sglang 0.5.9: broken without a message (4 of 11 parameters keep their" in out
    code, out = scan(capsys, draft(LLAMA), *args, "vllm==0.23.0")
    assert code == 0
    assert "\n  serving\n    vllm 0.23.0: served as trained\n" in out


def test_a_release_that_is_one_layer_off_is_a_warning(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--trained-with", "model-optimizer", "--engine")
    code, out = scan(capsys, draft(LLAMA), *args, "vllm==0.22.0")
    assert code == 0
    assert "\n  1 warning\n\n    AUX016 captured-layers-shifted\n" in out
    assert "      on: vllm==0.22.0\n" in out
    assert "\n  serving\n    vllm 0.22.0: degraded (" in out
    off = "captures boundaries [1, 3, 4]; trained on [2, 4, 5]: each at most one layer off"
    assert f"vllm 0.22.0: degraded ({off})\n" in unfolded(out)
    assert f" vllm 0.22.0 {off}. on: " in unfolded(out)
    assert "\n  1 warning, 1 note; 4 rules not judged\n" in out
    _, out = scan(capsys, draft(LLAMA), *args, "vllm==0.23.0")
    assert "AUX016" not in out


def test_without_the_writer_it_is_open_which_layers_were_trained(capsys: Capture) -> None:
    """A habit of the writer proves nothing: it is said what decides, and no headline says that all is well."""
    code, out = scan(capsys, draft(LLAMA), "--target", target(LLAMA), "--engine", "vllm==0.22.0")
    assert code == 0
    assert "\n  1 warning\n\n    AUX014 captured-layers-open\n" in out
    assert (
        "vllm 0.22.0: not known (whether [1, 3, 4] or [2, 4, 5] was trained: Model-Optimizer names the layers"
        " whose output is taken; --trained-with or --captured-with decides)"
    ) in unfolded(out)
    assert "\n  1 warning, 1 note; 4 rules not judged; vllm 0.22.0: not known\n" in out


@pytest.mark.parametrize("engines", [["vllm==0.22.0,sglang==0.5.9"], ["vllm==0.22.0", " SGLang==0.5.9 ,"]])
def test_several_releases(capsys: Capture, engines: list[str]) -> None:
    named = [word for engine in engines for word in ("--engine", engine)]
    found = scan_json(capsys, draft(LLAMA), "--target", target(LLAMA), *named)
    plans = [(plan["engine"], plan["version"], plan["outcome"]) for plan in found["plans"]]
    assert plans == [("vllm", "0.22.0", "unknown"), ("sglang", "0.5.9", "broken")]
    assert found["serving"] == []
    bound = {engine for finding in found["findings"] for engine in finding["engines"]}
    assert bound == {"vllm==0.22.0", "sglang==0.5.9"}


def test_a_release_named_twice_is_judged_once(capsys: Capture) -> None:
    once = scan_json(capsys, draft(LLAMA), "--engine", "sglang==0.5.9")
    assert scan_json(capsys, draft(LLAMA), "--engine", "sglang==0.5.9,sglang==0.5.9") == once
    assert len(once["plans"]) == 1


def test_the_plans_are_those_of_the_plan_command(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--engine", "sglang==0.5.9", "--format", "json")
    found = scan_json(capsys, draft(LLAMA), *args[:4])
    run(["plan", draft(LLAMA), *args])
    assert found["plans"] == json.loads(capsys.readouterr().out)["plans"]


@pytest.mark.parametrize("name", NAMES)
def test_without_an_engine_the_ranges_of_two_engines(capsys: Capture, name: str) -> None:
    found = scan_json(capsys, draft(name), "--target", target(name))
    assert found["plans"] == []
    run(["compat", draft(name), "--target", target(name), "--engine", "sglang", "--engine", "vllm", "--format", "json"])
    ranges = json.loads(capsys.readouterr().out)["plans"]
    folded: list[tuple[str, str, str, str, str]] = []
    for r in ranges:  # rows that say the same are one
        row = (r["engine"], r["first"], r["last"], r["outcome"], next(iter(r["reasons"]), ""))
        if folded and (folded[-1][0], *folded[-1][3:]) == (row[0], *row[3:]):
            row = (row[0], folded.pop()[1], *row[2:])
        folded.append(row)
    assert [(s["engine"], s["first"], s["last"], s["outcome"], s["reason"]) for s in found["serving"]] == folded
    newest = {(s["engine"], s["last"]) for s in found["serving"] if s["is_newest"]}
    assert newest == {(engine, contracts()[engine].newest) for engine in ("sglang", "vllm")}


def test_the_launch_line_counts(capsys: Capture) -> None:
    line = "python -m sglang.launch_server --pp-size 2"
    args = ("--target", target(LLAMA), "--engine", "sglang==0.5.12")
    assert scan(capsys, draft(LLAMA), *args)[0] == 0
    code, out = scan(capsys, draft(LLAMA), *args, "--launch", line)
    assert code == 1
    assert "sglang 0.5.12: refused with an error (pipeline parallelism and speculation together are" in out


@pytest.mark.parametrize("engine", ["vllm==0.23.0", "sglang==0.5.12"])
def test_hostile_names_are_escaped(capsys: Capture, tmp_path: Path, engine: str) -> None:
    path = copy(LLAMA, tmp_path / "draft", extra=HOSTILE_NAMES)
    _, out = scan(capsys, path, "--target", target(LLAMA), "--engine", engine)
    assert unsafe(out) == set()
    assert len(scan_json(capsys, path, "--engine", engine)["plans"]) == 1


KNOWN = "eagle, llama.cpp, lmdeploy, mlx-vlm, openvino, sglang, tensorrt-llm and vllm"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--engine", "nope"], f"unknown engine 'nope'; known are {KNOWN}"),
        (["--engine", "vllm,nope==1"], f"unknown engine 'nope'; known are {KNOWN}"),
        (["--engine", "sglang==latest"], "'latest' is no release number"),
        (["--engine", "sglang==0.1"], "SGLang 0.1 is older than the first known release, 0.4.4"),
        (["--launch", "vllm serve 'x"], "the launch line cannot be read: No closing quotation"),
    ],
)
@pytest.mark.parametrize("path", [draft(LLAMA), "no/such"])
def test_wrong_engines_and_lines_stop_the_run(capsys: Capture, path: str, args: list[str], sentence: str) -> None:
    assert run(["scan", path, *args]) == 2
    assert capsys.readouterr() == ("", f"ckptdoctor: {sentence}\n")


def test_a_missing_path(capsys: Capture) -> None:
    assert scan(capsys, "no/such", "--engine", "vllm") == (3, "could not examine no/such: no such file or folder\n")
