"""`ckptdoctor plan` on the real drafts: outcome and exit code, text, and what is told instead of a plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_calls import Capture, plan, plan_json
from cli_drafts import HOSTILE_NAMES, NAMES, SAFE_NAMES, copy, draft, stored_names, target, unsafe

from ckptdoctor.cli.main import run
from ckptdoctor.serving import contracts

LLAMA = "mo_eagle3_llama"


@pytest.mark.parametrize(
    ("engine", "code", "first_lines"),
    [
        ("vllm==0.23.0", 0, "vllm 0.23.0: served as trained\n"),
        (
            "vllm==0.22.0",
            0,
            "vllm 0.22.0: degraded\n"
            "  EAGLE-3 draft (llama attention), written by Model-Optimizer, 14 tensors, 134 kB\n"
            "  because captures boundaries [1, 3, 4]; trained on [2, 4, 5]: each at most one layer off\n"
            "  better: vLLM 0.10.2 to 0.21.0 serves it as trained\n"
            "  better: vLLM 0.23.0 to 0.33.0 serves it as trained\n"
            "  better: with the ids [2, 4, 5] this release captures what the draft was trained on\n",
        ),
        (
            "sglang==0.4.4",
            1,
            "sglang 0.4.4: refused with an error\n"
            "  EAGLE-3 draft (llama attention), written by Model-Optimizer, 14 tensors, 134 kB\n"
            "  because this release has no class for LlamaForCausalLMEagle3\n"
            "  better: SGLang 0.5.12 to 0.5.23 serves it as trained\n",
        ),
    ],
)
def test_the_outcome_and_the_exit_code(capsys: Capture, engine: str, code: int, first_lines: str) -> None:
    args = ("--target", target(LLAMA), "--trained-with", "model-optimizer")
    found, out = plan(capsys, draft(LLAMA), engine, *args)
    assert found == code
    assert out.startswith(first_lines)


def test_a_degraded_draft_is_no_failure(capsys: Capture, tmp_path: Path) -> None:
    path = copy(LLAMA, tmp_path / "draft", {"norm_before_residual": True})
    code, out = plan(capsys, path, "sglang==0.5.12", "--target", target(LLAMA))
    assert code == 0
    assert out.startswith("sglang 0.5.12: degraded\n")
    assert "  because norm_before_residual is not honoured: the residual is taken before the norm\n" in out


def test_three_reasons_are_shown_and_the_rest_is_counted(capsys: Capture) -> None:
    code, out = plan(capsys, draft(LLAMA), "sglang==0.4.5", "--target", target(LLAMA))
    assert code == 1
    assert out.splitlines()[2:6] == [
        "  because layers.0.mlp.gate_proj.weight names no parameter of this class",
        "  because layers.0.mlp.up_proj.weight names no parameter of this class",
        "  because layers.0.self_attn.k_proj.weight names no parameter of this class",
        "  and 2 more reasons",
    ]
    assert len(plan_json(capsys, draft(LLAMA), "sglang==0.4.5")["reasons"]) == 5


def test_the_newest_release_is_the_default(capsys: Capture) -> None:
    for engine in ("sglang", "vllm", "VLLM"):
        found = plan_json(capsys, draft(LLAMA), engine)
        assert (found["engine"], found["version"]) == (engine.lower(), contracts()[engine.lower()].newest)


# Releases whose class builds parameters for the draft. The .bin draft is named by its plan alone.
@pytest.mark.parametrize("engine", ["sglang", "vllm", "eagle", "llama.cpp", "mlx-vlm", "tensorrt-llm"])
@pytest.mark.parametrize("name", NAMES)
def test_the_text_names_everything(capsys: Capture, name: str, engine: str) -> None:
    args = ("--target", target(name))
    found = plan_json(capsys, draft(name), engine, *args)
    _, out = plan(capsys, draft(name), engine, *args)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    words = set(re.findall(r"[\w.]+", re.sub(r"(?<=[./_,:-])\n +", "", out)))
    parameters = {p["name"] for p in found["parameters"]}
    assert parameters <= words
    if parameters:
        stored = {s["name"] for s in found["stored"]}
        assert stored_names(draft(name)) <= stored
        assert stored <= words


KNOWN = "eagle, llama.cpp, lmdeploy, mlx-vlm, openvino, sglang, tensorrt-llm and vllm"


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["--engine", "nope"], 2, f"unknown engine 'nope'; known are {KNOWN}"),
        (["--engine", ""], 2, f"unknown engine ''; known are {KNOWN}"),
        (["--engine", "vllm=0.33.0"], 2, f"unknown engine 'vllm=0.33.0'; known are {KNOWN}"),
        (["--engine", "vllm==new"], 2, "'new' is no release number"),
        (["--engine", "vllm==\x1b[31m"], 2, r"'\x1b[31m' is no release number"),
        (["--engine", "vllm==0.0.1"], 2, "vLLM 0.0.1 is older than the first known release, 0.9.0"),
        (["--engine", "llama.cpp==b1"], 2, "llama.cpp b1 is older than the first known release, b9606"),
        (
            ["--engine", "vllm==" + "9" * 5000],
            2,
            f"'vllm=={'9' * 34}… (+4966 characters)' is no engine or release",
        ),
        (["--engine", "vllm", "--trained-with", "me"], 2, "unknown writer 'me'; known are angelslim, automodel, eagle, "
         "model-optimizer, specforge, speculators and torchspec"),
        (["--engine", "vllm", "--captured-with", "sglang"], 2, "--captured-with sglang: say the release too "
         f"(sglang=={contracts()['sglang'].newest}), since releases count layers in different ways"),
        (["--engine", "vllm", "--captured-with", "tgi==3"], 2, "unknown engine 'tgi'; known are eagle, llama.cpp, "
         "lmdeploy, mlx-vlm, openvino, sglang, tensorrt-llm and vllm"),
        (["--engine", "vllm", "--launch", "vllm serve '"], 2, "the launch line cannot be read: No closing quotation"),
        (["--engine", "vllm", "--target", "no/such"], 3, "no/such: no such file or folder"),
    ],
)  # fmt: skip
def test_one_sentence_instead_of_a_plan(capsys: Capture, args: list[str], code: int, sentence: str) -> None:
    assert run(["plan", draft(LLAMA), *args]) == code
    assert capsys.readouterr() == ("", f"ckptdoctor: {sentence}\n")


def test_a_path_without_a_draft(capsys: Capture, tmp_path: Path) -> None:
    assert run(["plan", str(tmp_path / "gone"), "--engine", "vllm"]) == 3
    assert capsys.readouterr() == ("", f"ckptdoctor: {tmp_path / 'gone'}: no such file or folder\n")
    assert run(["plan", str(tmp_path), "--engine", "vllm"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ckptdoctor: {tmp_path}: nothing that looks like a checkpoint")
    assert err.count("\n") == 1


def test_the_engine_is_looked_at_before_the_path(capsys: Capture) -> None:
    assert run(["plan", "no/such", "--engine", "nope"]) == 2
    assert capsys.readouterr().err.startswith("ckptdoctor: unknown engine 'nope'")


def test_an_engine_is_needed(capsys: Capture) -> None:
    assert run(["plan", draft(LLAMA)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ckptdoctor: Missing option '--engine'")


# vLLM stops at a name that it does not know, SGLang passes it over.
@pytest.mark.parametrize(
    ("engine", "fate", "code"), [("vllm==0.23.0", "rejected", 1), ("sglang==0.5.12", "dropped", 0)]
)
@pytest.mark.parametrize("color", ["auto", "always"])
def test_hostile_names_are_escaped(
    capsys: Capture, tmp_path: Path, engine: str, fate: str, code: int, color: str
) -> None:
    path = copy(LLAMA, tmp_path / "draft", extra=HOSTILE_NAMES)
    found, out = plan(capsys, path, engine, "--target", target(LLAMA), "--color", color)
    assert found == code
    assert ("\x1b[" in out) is (color == "always")
    bare = re.sub(r"\x1b\[[0-9;]*m", "", out) if color == "always" else out
    assert unsafe(bare) == set()
    for name in SAFE_NAMES:
        assert f"    {name}  {fate}" in bare
    # JSON is ASCII, so names stand there whole and can be looked up in the file.
    data = plan_json(capsys, path, engine)
    names = set(HOSTILE_NAMES)
    assert {s["name"]: s["fate"] for s in data["stored"] if s["name"] in names} == dict.fromkeys(names, fate)


def test_a_hostile_config_is_escaped(capsys: Capture, tmp_path: Path) -> None:
    path = copy(LLAMA, tmp_path / "draft", {"architectures": ["\x1b[31mEvil\u202e"], "model_type": "\x9b2J"})
    for engine in contracts():
        _, out = plan(capsys, path, engine, "--target", target(LLAMA))
        assert unsafe(out) == set()
