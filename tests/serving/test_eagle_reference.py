"""The EAGLE reference against its recorded loads, parameter by parameter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.plan import LoadPlan, Parameter

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "fixtures" / "trainers"
DRAFTS = ROOT.parent / "shared" / "drafts"
Edit = Callable[..., Path]


def recorded() -> list[object]:
    """The drafts whose load by the EAGLE reference was recorded (one skipped parameter when they are absent)."""
    folders = sorted(p.parent.parent for p in DRAFTS.glob("*/loaders/eagle.json"))
    if not folders:
        reason = pytest.mark.skip(reason=f"{DRAFTS} is not there")
        return [pytest.param(DRAFTS, id="absent", marks=[pytest.mark.shared, reason])]
    return [pytest.param(p, id=p.name, marks=[pytest.mark.shared]) for p in folders]


def plan_of(folder: Path, engine: str) -> LoadPlan:
    contract = contracts()[engine]
    facts = describe(open_checkpoint(str(folder)), read_target(str(folder / "target")))
    return load_plan(facts, contract, contract.newest)


def parameter(plan: LoadPlan, name: str) -> Parameter:
    return next(p for p in plan.parameters if p.name == name)


@pytest.mark.parametrize("folder", recorded())
def test_a_recorded_load_of_the_eagle_reference_agrees(folder: Path) -> None:
    truth = json.loads((folder / "loaders" / "eagle.json").read_text(encoding="utf-8"))
    if "killed" in (truth["error"] or ""):
        pytest.skip("the recorded load ran out of time and says nothing")
    if not (folder / "model.safetensors").exists():
        pytest.importorskip("torch")
    plan = plan_of(folder, "eagle")
    loading = [e for e in plan.errors if e.stage != "first_forward"]  # the recorded loads ran no forward
    if truth["error"]:
        assert loading
        return
    assert loading == []
    assert plan.model_class == truth["model_class"]
    assert {p.name: list(p.keys) for p in plan.parameters if p.keys} == truth["loaded"]
    # d2t and t2d are buffers, which the recording does not list as untouched.
    untouched = {p.name for p in plan.parameters if not p.keys and p.name not in ("d2t", "t2d")}
    assert untouched == set(truth["untouched"])
    assert {s.name for s in plan.stored if s.parameter is None} == set(truth["ignored_keys"])
    fc = parameter(plan, "fc.weight").shape
    assert fc is not None
    assert list(fc) == truth["fc_shape"]


def test_the_eagle_reference_has_no_use_for_a_nested_config() -> None:
    plan = plan_of(TRAINERS / "spec_eagle3_llama", "eagle")
    assert plan.outcome == "refused"
    assert "target_hidden_size is null" in plan.reasons


def test_the_eagle_reference_leaves_a_decoder_named_layers_random(edited: Edit) -> None:
    plan = plan_of(edited("mo_eagle3_llama", config={"rope_scaling": None}), "eagle")
    assert plan.outcome == "broken"
    left = {p.name for p in plan.parameters if p.state == "initial" and p.initial == "random"}
    assert {f"midlayer.self_attn.{p}_proj.weight" for p in "qkvo"} <= left
    assert all(parameter(plan, name).state == "loaded" for name in ("fc.weight", "norm.weight", "lm_head.weight"))


@pytest.mark.parametrize(
    ("rope", "stage"),
    [
        (None, None),
        ({"type": "linear", "factor": 2.0}, None),
        ({"type": "linear", "factor": 2}, "config"),
        ({"type": "dynamic", "factor": 1.0}, "config"),
        ({"type": "llama3", "factor": 8.0}, "config"),
        ({"rope_type": "linear", "factor": 2.0}, "config"),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, "config"),
        ("linear", "config"),
    ],
)
def test_the_eagle_reference_takes_one_form_of_rope_scaling(edited: Edit, rope: object, stage: str | None) -> None:
    plan = plan_of(edited("sf_eagle3_llama_sglang", config={"rope_scaling": rope}), "eagle")
    assert [e.stage for e in plan.errors[:1]] == ([stage] if stage else [])


def test_the_eagle_reference_ignores_head_dim(edited: Edit) -> None:
    assert plan_of(edited("sf_eagle3_llama_sglang", config={"head_dim": 32}), "eagle").outcome == "served"


def test_the_eagle_reference_takes_the_embedding_of_the_target_unless_a_width_is_given(edited: Edit) -> None:
    assert parameter(plan_of(TRAINERS / "sf_eagle3_llama_sglang", "eagle"), "embed_tokens.weight").shared
    folder = edited("sf_eagle3_llama_sglang", config={"target_hidden_size": 64})
    alone = parameter(plan_of(folder, "eagle"), "embed_tokens.weight")
    assert (alone.state, alone.initial) == ("initial", "random")


def test_the_eagle_reference_opens_no_shards(edited: Edit) -> None:
    folder = edited("sf_eagle3_llama_sglang")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    assert [e.stage for e in plan_of(folder, "eagle").errors] == ["load"]


def test_the_eagle_reference_prefers_the_pickle_that_lies_beside(edited: Edit) -> None:
    torch = pytest.importorskip("torch")
    folder = edited("sf_eagle3_llama_sglang")
    torch.save({"fc.weight": torch.zeros(64, 192)}, folder / "pytorch_model.bin")
    plan = plan_of(folder, "eagle")
    assert [r for r in plan.remarks if r.startswith("EAGLE reference opens pytorch_model.bin")]


def test_the_eagle_reference_captures_in_two_target_classes_only(edited: Edit) -> None:
    folder = edited("sf_eagle3_llama_sglang")
    target = folder / "target" / "config.json"
    config = {**json.loads(target.read_text(encoding="utf-8")), "architectures": ["Qwen2ForCausalLM"]}
    target.write_text(json.dumps(config), encoding="utf-8")
    assert [e.stage for e in plan_of(folder, "eagle").errors] == ["first_forward"]
