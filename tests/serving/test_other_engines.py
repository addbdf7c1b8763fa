"""What the other engines do with drafts as trainers write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.plan import LoadPlan, Parameter

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "fixtures" / "trainers"
OTHERS = ("eagle", "llama.cpp", "lmdeploy", "mlx-vlm", "openvino", "tensorrt-llm")
SIZES = {"H": 64, "Q": 64, "KV": 32, "I": 128}
Edit = Callable[..., Path]


def plan_of(folder: Path, engine: str) -> LoadPlan:
    contract = contracts()[engine]
    facts = describe(open_checkpoint(str(folder)), read_target(str(folder / "target")))
    return load_plan(facts, contract, contract.newest)


def parameter(plan: LoadPlan, name: str) -> Parameter:
    return next(p for p in plan.parameters if p.name == name)


def second_layer(prefix: str = "layers.1.") -> dict[str, tuple[int, ...]]:
    """The names that Model-Optimizer writes for a layer after the first: an input_layernorm, no hidden_norm."""
    h, q, kv, i = SIZES["H"], SIZES["Q"], SIZES["KV"], SIZES["I"]
    shapes = {
        "self_attn.q_proj": (q, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h),
        "self_attn.o_proj": (h, q), "mlp.gate_proj": (i, h), "mlp.up_proj": (i, h), "mlp.down_proj": (h, i),
        "input_layernorm": (h,), "post_attention_layernorm": (h,),
    }  # fmt: skip
    return {f"{prefix}{name}.weight": shape for name, shape in shapes.items()}


# --- TensorRT-LLM -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", ["mo_eagle3_llama", "sf_eagle3_llama_sglang", "eagle_ref_eagle3_safetensors"])
def test_tensorrt_llm_serves_both_names_of_the_layer(draft: str) -> None:
    plan = plan_of(TRAINERS / draft, "tensorrt-llm")
    assert (plan.outcome, plan.uninitialised) == ("served", ())
    assert parameter(plan, "model.embed_tokens.weight").shared


def test_tensorrt_llm_leaves_the_norm_of_a_second_layer_unfilled(edited: Edit) -> None:
    folder = edited("mo_eagle3_llama", config={"num_hidden_layers": 2}, add=second_layer())
    plan = plan_of(folder, "tensorrt-llm")
    assert plan.outcome == "broken"
    assert plan.uninitialised == ("model.midlayer.1.hidden_norm.weight",)
    assert "layers.1.input_layernorm.weight" in plan.dropped


@pytest.mark.parametrize(
    ("drop", "refused"),
    [
        ("layers.0.self_attn.k_proj.weight", True),
        ("layers.0.mlp.up_proj.weight", True),
        ("d2t", True),
        ("fc.weight", False),
        ("norm.weight", False),
        ("layers.0.self_attn.o_proj.weight", False),
    ],
)
def test_tensorrt_llm_insists_on_fused_projections_and_the_map_alone(edited: Edit, drop: str, refused: bool) -> None:
    plan = plan_of(edited("mo_eagle3_llama", drop=(drop,)), "tensorrt-llm")
    assert plan.outcome == ("refused" if refused else "broken")


def test_tensorrt_llm_loads_nothing_from_names_with_model_in_front(edited: Edit) -> None:
    folder = edited("mo_eagle3_llama", rename={"layers.": "model.layers.", "fc.": "model.fc.", "norm.": "model.norm."})
    plan = plan_of(folder, "tensorrt-llm")
    assert {e.stage for e in plan.errors} == {"load"}
    assert {"model.fc.weight", "model.norm.weight"} <= set(plan.dropped)


def test_tensorrt_llm_takes_the_head_of_the_target_unless_a_name_holds_lm_head(edited: Edit) -> None:
    without = plan_of(edited("mo_eagle3_llama", drop=("lm_head.weight",)), "tensorrt-llm")
    assert parameter(without, "lm_head.weight").shared


def test_tensorrt_llm_is_misled_by_a_name_that_holds_lm_head(edited: Edit) -> None:
    plan = plan_of(edited("mo_eagle3_llama", rename={"lm_head.": "model.lm_head."}), "tensorrt-llm")
    head = parameter(plan, "lm_head.weight")
    assert (head.shared, head.state, head.initial) == (False, "initial", "empty")
    assert plan.outcome == "broken"


@pytest.mark.parametrize("config", [{"norm_before_fc": True}, {"eagle_config": {"norm_before_fc": True}}])
def test_tensorrt_llm_reads_norm_before_fc_inside_eagle_config_alone(edited: Edit, config: dict[str, Any]) -> None:
    plan = plan_of(edited("mo_eagle3_llama", config=config, add={"input_norm.weight": (192,)}), "tensorrt-llm")
    assert ("input_norm.weight" in plan.dropped) == ("norm_before_fc" in config)


# --- llama.cpp --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draft", ["mo_eagle3_llama", "sf_eagle3_llama_sglang", "spec_eagle3_llama", "eagle_ref_eagle3_safetensors"]
)
def test_llama_cpp_serves_every_name_of_the_layer_and_the_nested_config(draft: str) -> None:
    plan = plan_of(TRAINERS / draft, "llama.cpp")
    assert (plan.outcome, plan.uninitialised) == ("served", ())
    assert parameter(plan, "blk.0.attn_norm_2.weight").keys[0].endswith("hidden_norm.weight")


def test_llama_cpp_needs_draft_vocab_size_to_know_an_eagle3_draft(edited: Edit) -> None:
    plan = plan_of(edited("sf_eagle3_llama_sglang", config={"draft_vocab_size": "absent"}), "llama.cpp")
    assert "plain Llama" in plan.reasons[0]


@pytest.mark.parametrize("name", ["fc_norm.0.weight", "input_norm.weight", "mask_hidden", "model.fc.weight"])
def test_llama_cpp_refuses_names_that_it_cannot_map(edited: Edit, name: str) -> None:
    plan = plan_of(edited("sf_eagle3_llama_sglang", add={name: (64,)}), "llama.cpp")
    assert [e.reason for e in plan.errors] == [f"{name} names no parameter of this class"]


def test_llama_cpp_without_a_map_wants_a_head_for_every_token(edited: Edit) -> None:
    plan = plan_of(edited("sf_eagle3_llama_sglang", drop=("d2t", "t2d")), "llama.cpp")
    assert [e.reason for e in plan.errors] == ["lm_head.weight is [128, 64]; output.weight takes [512, 64]"]


# --- LMDeploy ---------------------------------------------------------------------------------------------------------


def test_lmdeploy_serves_the_drafts_of_the_eagle_reference() -> None:
    plan = plan_of(TRAINERS / "eagle_ref_eagle3_safetensors", "lmdeploy")
    assert (plan.outcome, plan.uninitialised) == ("served", ())


def test_lmdeploy_refuses_unknown_keys(edited: Edit) -> None:
    plan = plan_of(edited("mo_eagle3_llama", config={"architectures": ["LlamaForCausalLM"]}), "lmdeploy")
    refused = {s.name for s in plan.stored if s.fate == "rejected"}
    assert plan.outcome == "refused"
    assert refused
    assert all(name.startswith("layers.0.") for name in refused)


def test_lmdeploy_without_a_map_keeps_a_table_of_zeros(edited: Edit) -> None:
    plan = plan_of(edited("eagle_ref_eagle3_safetensors", drop=("d2t", "t2d")), "lmdeploy")
    table = parameter(plan, "draft_id_to_target_id")
    assert (table.state, table.initial) == ("initial", "zeros")
    assert plan.wiring["map"] is None


def test_lmdeploy_passes_the_head_of_a_tied_config_over(edited: Edit) -> None:
    plan = plan_of(edited("eagle_ref_eagle3_safetensors", config={"tie_word_embeddings": True}), "lmdeploy")
    assert parameter(plan, "lm_head.weight").state == "initial"
    assert plan.outcome == "broken"


# --- MLX-VLM and OpenVINO GenAI ---------------------------------------------------------------------------------------


def test_mlx_vlm_serves_the_nested_config_with_an_embedding_of_its_own() -> None:
    plan = plan_of(TRAINERS / "spec_eagle3_llama", "mlx-vlm")
    assert (plan.outcome, plan.captured["extend"]) == ("served", (2, 4, 5))


def test_mlx_vlm_builds_the_default_sizes_for_a_flat_config() -> None:
    plan = plan_of(TRAINERS / "sf_eagle3_llama_sglang", "mlx-vlm")
    assert parameter(plan, "fc.weight").shape == (4096, 12288)
    assert plan.outcome == "refused"


def test_openvino_captures_one_layer_deeper_than_the_reference(edited: Edit) -> None:
    folder = edited("sf_eagle3_llama_sglang")
    target = folder / "target" / "config.json"
    deep = {**json.loads(target.read_text(encoding="utf-8")), "num_hidden_layers": 32}
    target.write_text(json.dumps(deep), encoding="utf-8")
    assert plan_of(folder, "openvino").captured["extend"] == (3, 17, 30)
    assert plan_of(folder, "eagle").captured["extend"] == (2, 16, 29)


def test_openvino_has_no_default_layers_for_shallow_targets() -> None:
    assert [e.stage for e in plan_of(TRAINERS / "sf_eagle3_llama_sglang", "openvino").errors] == ["construct"]


# --- Every one of them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("draft", sorted(p.name for p in TRAINERS.iterdir() if (p / "model.safetensors").exists()))
def test_every_draft_of_a_trainer_gets_a_plan(engine: str, draft: str) -> None:
    plan = plan_of(TRAINERS / draft, engine)
    assert plan.engine == engine
    assert (plan.outcome == "refused") == bool(plan.errors)


@pytest.mark.parametrize("engine", OTHERS)
def test_what_was_only_read_never_passes_for_executed(engine: str) -> None:
    rows = [row for row in _rows(contracts()[engine].raw) if "evidence" in row]
    assert rows
    assert all(row.get("source") for row in rows)
    assert engine == "eagle" or all(row["evidence"] == "read" for row in rows)


def _rows(value: object) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        return [value, *(row for inner in value.values() for row in _rows(inner))]
    return [row for inner in value for row in _rows(inner)] if isinstance(value, (list, tuple)) else []
