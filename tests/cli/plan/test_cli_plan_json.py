"""`ckptdoctor plan` as JSON, and what of a call counts in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli_calls import Capture, plan, plan_json
from cli_drafts import draft, header, target

from ckptdoctor.serving import contracts

LLAMA = "mo_eagle3_llama"


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
