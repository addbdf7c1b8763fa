"""`ckptdoctor compat` on the real drafts: ranges over all known releases."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_drafts import HAS_TORCH, HOSTILE_NAMES, NAMES, PLAN, SAFE_NAMES, copy, draft, plain_model, target, unsafe

from ckptdoctor.cli.main import run
from ckptdoctor.serving import contracts

Capture = pytest.CaptureFixture[str]

LLAMA = "mo_eagle3_llama"
SPECULATORS = "spec_eagle3_llama"


def compat(capsys: Capture, path: str, *args: str) -> tuple[int, str]:
    """Exit code and stdout; nothing may go to stderr."""
    code = run(["compat", path, *args])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def compat_json(capsys: Capture, path: str, *args: str) -> list[dict[str, Any]]:
    """The plans of the document, each held to the schema, of releases that were read."""
    _, out = compat(capsys, path, *args, "--format", "json")
    assert out.isascii()
    document = json.loads(out)
    assert document.keys() == {"schema_version", "caveats", "plans"}
    assert (document["schema_version"], document["caveats"]) == (1, [])
    for plan in document["plans"]:
        PLAN.validate(plan)
    return list(document["plans"])


TEXT = """\
EAGLE-3 draft (llama attention), written by Model-Optimizer, 14 tensors, 134 kB

  SGLang
    0.4.4                    refused with an error
        this release has no class for LlamaForCausalLMEagle3
    0.4.5 to 0.4.8.post1     refused with an error
        layers.0.mlp.gate_proj.weight names no parameter of this class
        layers.0.mlp.up_proj.weight names no parameter of this class
        layers.0.self_attn.k_proj.weight names no parameter of this class
        and 2 more reasons
    0.4.9 to 0.5.11          broken without a message
        4 of 11 parameters keep their initial values: model.midlayer.self_attn.qkv_proj.weight,
          model.midlayer.self_attn.o_proj.weight, model.midlayer.mlp.gate_up_proj.weight and 1 more
    0.5.12 and later         served as trained

  vLLM
    0.9.0 to 0.10.1.1        refused with an error
        this release has no class for Eagle3LlamaForCausalLMEagle3
    0.10.2 to 0.21.0         served as trained
    0.22.0 to 0.22.1         degraded
        captures boundaries [1, 3, 4]; trained on [2, 4, 5]: each at most one layer off
    0.23.0 and later         served as trained
"""


def test_the_ranges_of_two_engines(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--engine", "sglang", "--engine", "vllm")
    assert compat(capsys, draft(LLAMA), *args, "--trained-with", "model-optimizer") == (0, TEXT)


@pytest.mark.parametrize(
    ("name", "engines", "code"),
    [
        (SPECULATORS, (), 0),
        (SPECULATORS, ("vllm",), 0),
        (SPECULATORS, ("sglang",), 1),
        (SPECULATORS, ("vllm", "sglang"), 1),
        (LLAMA, ("sglang",), 0),
        (LLAMA, ("sglang", "vllm"), 0),
        (LLAMA, ("lmdeploy",), 0),
        (LLAMA, ("mlx-vlm",), 1),
        pytest.param(
            "eagle_ref_eagle1_nobias", ("sglang",), 1, marks=pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
        ),
    ],
)
def test_the_newest_release_of_a_named_engine_decides(
    capsys: Capture, name: str, engines: tuple[str, ...], code: int
) -> None:
    named = [word for engine in engines for word in ("--engine", engine)]
    for form in ("text", "json"):
        assert compat(capsys, draft(name), "--target", target(name), *named, "--format", form)[0] == code


@pytest.mark.parametrize("name", NAMES)
def test_json_covers_every_known_release_once(capsys: Capture, name: str) -> None:
    plans = compat_json(capsys, draft(name), "--target", target(name))
    assert list(dict.fromkeys(plan["engine"] for plan in plans)) == list(contracts())
    for engine, contract in contracts().items():
        ranges = [(plan["first"], plan["last"]) for plan in plans if plan["engine"] == engine]
        places = [(contract.releases.index(first), contract.releases.index(last)) for first, last in ranges]
        assert places[0][0] == 0
        assert places[-1][1] == len(contract.releases) - 1
        assert all(first <= last for first, last in places)
        assert all(before[1] + 1 == after[0] for before, after in pairwise(places))
    assert all(plan["version"] == plan["last"] for plan in plans)


def test_a_range_says_what_plan_says(capsys: Capture) -> None:
    args = ("--target", target(LLAMA))
    for found in compat_json(capsys, draft(LLAMA), *args, "--engine", "vllm"):
        for release in (found["first"], found["last"]):
            run(["plan", draft(LLAMA), "--engine", f"vllm=={release}", *args, "--format", "json"])
            (plan,) = json.loads(capsys.readouterr().out)["plans"]
            assert plan["outcome"] == found["outcome"]
            assert plan["captured"] == found["captured"]
            assert [r.replace(release, "") for r in plan["reasons"]] == [
                r.replace(found["version"], "") for r in found["reasons"]
            ]


def test_an_engine_is_named_once_and_in_any_case(capsys: Capture) -> None:
    once = compat(capsys, draft(LLAMA), "--engine", "sglang")
    assert compat(capsys, draft(LLAMA), "--engine", "SGLang", "--engine", "sglang") == once


HEAD = "EAGLE-3 draft (llama attention), written by Model-Optimizer, 14 tensors, 134 kB\n"


@pytest.mark.parametrize(
    ("engine", "code", "text"),
    [
        ("vllm==0.33.0", 0, "\n  vLLM\n    0.33.0                   served as trained\n"),
        (
            "sglang==0.4.4",
            1,
            "\n  SGLang\n    0.4.4                    refused with an error\n"
            "        this release has no class for LlamaForCausalLMEagle3\n",
        ),
    ],
)
def test_one_release_of_an_engine(capsys: Capture, engine: str, code: int, text: str) -> None:
    args = ("--target", target(LLAMA), "--trained-with", "model-optimizer", "--engine", engine)
    assert compat(capsys, draft(LLAMA), *args) == (code, HEAD + text)
    name, _, release = engine.partition("==")
    (found,) = compat_json(capsys, draft(LLAMA), *args)
    assert [found[key] for key in ("engine", "version", "first", "last")] == [name, release, release, release]


def test_without_the_target_it_is_not_known(capsys: Capture) -> None:
    text = (
        "\n  vLLM\n    0.33.0                   not known\n"
        "        which layers reach the draft: the target is not known (--target PATH)\n"
    )
    assert compat(capsys, draft(LLAMA), "--engine", "vllm==0.33.0") == (0, HEAD + text)
    (found,) = compat_json(capsys, draft(LLAMA), "--engine", "vllm==0.33.0")
    assert found["outcome"] == "unknown"
    assert found["unproven"] == ["which layers reach the draft: the target is not known (--target PATH)"]


def test_the_launch_line_and_the_writer_count(capsys: Capture) -> None:
    args = ("--target", target(LLAMA), "--engine", "sglang")
    code, out = compat(capsys, draft(LLAMA), *args, "--launch", "python -m sglang.launch_server --pp-size 2")
    assert code == 1
    assert "pipeline parallelism and speculation together are refused" in out
    assert "served" not in out
    code, out = compat(capsys, draft(LLAMA), *args, "--trained-with", "speculators")
    assert code == 0
    assert out.endswith(
        "    0.5.12 and later         degraded\n"
        "        captures boundaries [2, 4, 5]; trained on [1, 3, 4]: each at most one layer off\n"
    )


def test_a_plain_model(capsys: Capture, tmp_path: Path) -> None:
    plans = compat_json(capsys, plain_model(tmp_path / "model"))
    assert {plan["engine"] for plan in plans} == set(contracts())


def test_hostile_names_are_escaped(capsys: Capture, tmp_path: Path) -> None:
    path = copy(LLAMA, tmp_path / "draft", extra=HOSTILE_NAMES)
    code, out = compat(capsys, path, "--target", target(LLAMA), "--engine", "vllm")
    assert code == 1
    assert unsafe(out) == set()
    assert f"        {SAFE_NAMES[0]} names no parameter of this class\n" in out
    assert "\x1b[" in compat(capsys, path, "--color", "always")[1]


KNOWN = "eagle, llama.cpp, lmdeploy, mlx-vlm, openvino, sglang, tensorrt-llm and vllm"


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["--engine", "nope"], 2, f"unknown engine 'nope'; known are {KNOWN}"),
        (["--engine", "vllm=0.33.0"], 2, f"unknown engine 'vllm=0.33.0'; known are {KNOWN}"),
        (["--engine", "vllm==new"], 2, "'new' is no release number"),
        (["--engine", "vllm==0.0.1"], 2, "vLLM 0.0.1 is older than the first known release, 0.9.0"),
        (["--engine", "sglang==5.12"], 2, "there is no SGLang 5.12; did you mean 0.5.12?"),
        (["--engine", "vllm", "--engine", "\x1b"], 2, rf"unknown engine '\x1b'; known are {KNOWN}"),
        (["--launch", '"'], 2, "the launch line cannot be read: No closing quotation"),
        (["--target", "no/such"], 3, "no/such: no such file or folder"),
    ],
)
def test_one_sentence_instead_of_an_answer(capsys: Capture, args: list[str], code: int, sentence: str) -> None:
    assert run(["compat", draft(LLAMA), *args]) == code
    assert capsys.readouterr() == ("", f"ckptdoctor: {sentence}\n")


def test_a_missing_path(capsys: Capture) -> None:
    assert run(["compat", "no/such"]) == 3
    assert capsys.readouterr() == ("", "ckptdoctor: no/such: no such file or folder\n")
