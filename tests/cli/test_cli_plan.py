"""`ckptdoctor plan` on the real drafts: outcome and exit code, text, JSON, and what is told instead of a plan."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_drafts import HOSTILE_NAMES, NAMES, PLAN, SAFE_NAMES, copy, draft, header, stored_names, target, unsafe

from ckptdoctor.cli.main import run
from ckptdoctor.serving import contracts

Capture = pytest.CaptureFixture[str]

LLAMA = "mo_eagle3_llama"


def plan(capsys: Capture, path: str, engine: str, *args: str) -> tuple[int, str]:
    """Exit code and stdout; nothing may go to stderr."""
    code = run(["plan", path, "--engine", engine, *args])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def plan_json(capsys: Capture, path: str, engine: str, *args: str, caveats: Sequence[str] = ()) -> dict[str, Any]:
    """The one plan of the document, held to the schema."""
    _, out = plan(capsys, path, engine, *args, "--format", "json")
    assert out.isascii()
    document = json.loads(out)
    assert document.keys() == {"schema_version", "caveats", "plans"}
    assert (document["schema_version"], document["caveats"]) == (1, list(caveats))
    (found,) = document["plans"]
    PLAN.validate(found)
    return dict(found)


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


def test_json_of_a_served_draft(capsys: Capture) -> None:
    found = plan_json(capsys, draft(LLAMA), "vllm==0.23.0", "--target", target(LLAMA))
    layer = "layers.0."
    assert found["loaded"] == {
        "draft_id_to_target_id": ["d2t"],
        **{
            f"model.{layer}self_attn.qkv_proj.weight": [f"{layer}self_attn.{p}_proj.weight" for p in "kqv"],
            f"model.{layer}self_attn.o_proj.weight": [f"{layer}self_attn.o_proj.weight"],
            f"model.{layer}mlp.gate_up_proj.weight": [f"{layer}mlp.{p}_proj.weight" for p in ("gate", "up")],
            f"model.{layer}mlp.down_proj.weight": [f"{layer}mlp.down_proj.weight"],
            f"model.{layer}input_layernorm.weight": [f"{layer}input_layernorm.weight"],
            f"model.{layer}post_attention_layernorm.weight": [f"{layer}post_attention_layernorm.weight"],
            f"model.{layer}hidden_norm.weight": [f"{layer}hidden_norm.weight"],
        },
        "model.fc.weight": ["fc.weight"],
        "model.norm.weight": ["norm.weight"],
        "lm_head.weight": ["lm_head.weight"],
    }
    assert found["shared"] == ["model.embed_tokens.weight"]
    assert (found["outcome"], found["reasons"], found["uninitialised"]) == ("served", [], [])
    assert found["captured"] == {"extend": [2, 4, 5], "verify": [2, 4, 5], "verify_graph": [2, 4, 5]}
    assert found["captured_boundaries"] == found["trained_boundaries"] == [2, 4, 5]
    assert found["counts"] == {"parameters": 12, "loaded": 11, "shared": 1, "uninitialised": 0, "dropped": 0}
    stored = header(Path(draft(LLAMA)) / "model.safetensors")
    shapes = {p["name"]: p["shape"] for p in found["parameters"]}
    assert shapes["model.fc.weight"] == stored["fc.weight"]["shape"]
    assert shapes["lm_head.weight"] == stored["lm_head.weight"]["shape"]


def test_json_of_a_draft_with_lost_projections(capsys: Capture) -> None:
    found = plan_json(capsys, draft(LLAMA), "sglang==0.5.9", "--target", target(LLAMA))
    layer = "model.midlayer."
    lost = ["self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"]
    assert found["outcome"] == "broken"
    assert found["uninitialised"][:4] == [f"{layer}{name}.weight" for name in lost]
    assert {s["name"] for s in found["stored"] if "_proj" in s["name"]} <= set(found["dropped"])
    assert found["errors"] == []


def test_the_launch_line_counts(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--launch")
    code, out = plan(capsys, draft(LLAMA), "sglang==0.5.12", *args, "python -m sglang.launch_server --pp-size 2")
    assert code == 1
    assert "  because pipeline parallelism and speculation together are refused\n" in out
    eager = "python -m sglang.launch_server --disable-cuda-graph"
    assert plan_json(capsys, draft(LLAMA), "sglang==0.5.12", *args, eager)["captured"]["verify_graph"] is None


def test_the_named_writer_counts(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--trained-with")
    assert plan(capsys, draft(LLAMA), "sglang==0.5.12", *args, "model-optimizer")[0] == 0
    code, out = plan(capsys, draft(LLAMA), "sglang==0.5.12", *args, "speculators")
    assert code == 0
    assert out.startswith("sglang 0.5.12: degraded\n")
    assert "  because captures boundaries [2, 4, 5]; trained on [1, 3, 4]: each at most one layer off\n" in out
    assert "  better: with the ids [0, 2, 3] this release captures what the draft was trained on\n" in out


def test_the_release_that_captured_counts(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--captured-with")
    assert plan_json(capsys, draft(LLAMA), "sglang==0.5.12", *args, "sglang==0.5.14")["trained_boundaries"] == [2, 4, 5]
    # What the writer means by its ids is not what vLLM would have captured for them: nothing is certain.
    _, out = plan(capsys, draft(LLAMA), "sglang==0.5.12", *args, "vllm==0.33.0")
    assert "Model-Optimizer means boundaries [2, 4, 5] by these ids, and vLLM 0.33.0 captures [1, 3, 4]" in " ".join(
        out.split()
    )


def judged_as(found: dict[str, Any], release: str, remark: str) -> dict[str, Any]:
    """What is said of an unread release: all that is said of the release before it, and nothing as executed."""
    remarks = [remark, *found["remarks"]]
    return {**found, "version": release, "remarks": remarks, "release_remark": remark, "executed": False}


def test_a_release_after_the_contract_is_taken_for_the_newest(capsys: Capture) -> None:
    newest = contracts()["vllm"].newest
    args = ("--target", target(LLAMA))
    remark = (
        f"vLLM 99.0 is newer than what was read, which ends at {newest}: it is judged as vLLM {newest},"
        " so nothing said of it is certain."
    )
    known = plan_json(capsys, draft(LLAMA), "vllm", *args)
    assert known["release_remark"] is None
    assert plan_json(capsys, draft(LLAMA), "vllm==99.0", *args, caveats=[remark]) == judged_as(known, "99.0", remark)


def test_a_release_between_two_is_taken_for_the_older(capsys: Capture) -> None:
    args = ("--target", target(LLAMA))
    older = plan_json(capsys, draft(LLAMA), "sglang==0.5.11", *args)
    remark = "SGLang 0.5.12rc1 was not read: it is judged as SGLang 0.5.11, so nothing said of it is certain."
    between = plan_json(capsys, draft(LLAMA), "sglang==0.5.12rc1", *args, caveats=[remark])
    assert between == judged_as(older, "0.5.12rc1", remark)
    _, out = plan(capsys, draft(LLAMA), "sglang==0.5.12rc1", *args)
    assert out.startswith(f"{remark}\n\nsglang 0.5.12rc1: broken without a message\n")
    assert out.count(remark) == 1


def test_without_the_target_the_captured_layers_are_open(capsys: Capture) -> None:
    code, out = plan(capsys, draft(LLAMA), "vllm==0.22.0")
    assert code == 0
    assert out.startswith(
        "vllm 0.22.0: not known\n"
        "  EAGLE-3 draft (llama attention), written by Model-Optimizer, 14 tensors, 134 kB\n"
        "  because which layers reach the draft: the target is not known (--target PATH)\n\n"
    )
    assert "boundaries" not in out
    assert plan_json(capsys, draft(LLAMA), "vllm==0.22.0")["outcome"] == "unknown"


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


def on_terminal(*args: str, columns: int, **env: str) -> str:
    """What a terminal of so many columns gets from the command, run as a process."""
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "LINES"}}
    whole = {**kept, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", "COLUMNS": str(columns), **env}
    process = subprocess.Popen(
        [sys.executable, "-m", "ckptdoctor", *args], env=whole, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    _, err = process.communicate(timeout=60)
    assert err == b""
    return out.decode().replace("\r\n", "\n")


TABLE_80 = """\
  parameters of Eagle3LlamaForCausalLM
    draft_id_to_target_id                           128      ← d2t
    model.embed_tokens.weight                       512×64   the target's
    model.layers.0.self_attn.qkv_proj.weight        128×128
        ← layers.0.self_attn.k_proj.weight, layers.0.self_attn.q_proj.weight and
          layers.0.self_attn.v_proj.weight
    model.layers.0.self_attn.o_proj.weight          64×64
        ← layers.0.self_attn.o_proj.weight
    model.layers.0.mlp.gate_up_proj.weight          256×64
        ← layers.0.mlp.gate_proj.weight and layers.0.mlp.up_proj.weight
    model.layers.0.mlp.down_proj.weight             64×128
        ← layers.0.mlp.down_proj.weight
    model.layers.0.input_layernorm.weight           64
        ← layers.0.input_layernorm.weight
    model.layers.0.post_attention_layernorm.weight  64
        ← layers.0.post_attention_layernorm.weight
    model.layers.0.hidden_norm.weight               64
        ← layers.0.hidden_norm.weight
    model.fc.weight                                 64×192   ← fc.weight
    model.norm.weight                               64       ← norm.weight
    lm_head.weight                                  128×64   ← lm_head.weight

"""


def test_rows_on_a_terminal_of_80_columns() -> None:
    args = ("plan", draft(LLAMA), "--engine", "vllm==0.22.0", "--target", target(LLAMA))
    plain = on_terminal(*args, columns=80, NO_COLOR="1")
    assert TABLE_80 in plain
    assert max(map(len, plain.splitlines())) <= 80
    coloured = on_terminal(*args, columns=80)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("columns", [60, 80, 110])
@pytest.mark.parametrize(
    ("name", "engine"), [("spec_dflash_qwen3", "vllm"), ("eagle_ref_eagle3_safetensors", "sglang")]
)
def test_a_name_and_its_shape_stay_on_one_line(columns: int, name: str, engine: str) -> None:
    out = on_terminal("plan", draft(name), "--engine", engine, "--target", target(name), columns=columns, NO_COLOR="1")
    lines = out.splitlines()
    assert max(map(len, lines)) <= columns
    start = next(n for n, text in enumerate(lines) if text.startswith("  parameters of ")) + 1
    rows = [text for text in lines[start : lines.index("", start)] if re.match(r" {4}\S", text)]
    assert all(re.fullmatch(r" {4}[\w.]+ {2,}(\d+(×\d+)*|\?)( {2,}.+)?", text) for text in rows)
