"""What makes an outcome: what is open, how far layers are apart, and which of two outcomes is better."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story_drafts import draft, facts_of, target, trainer

from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.layers.layer_reasons import distance
from ckptdoctor.serving.outcomes import Outcome, is_better, is_worse
from ckptdoctor.serving.plan import LoadPlan

OF = st.sampled_from([outcome.value for outcome in Outcome])


def test_a_plan_that_says_nothing_is_not_known() -> None:
    assert LoadPlan("vllm", "0.33.0", None).outcome == "unknown"


@pytest.mark.parametrize(
    ("captured", "trained", "found"),
    [
        ((2, 30, 58), (2, 30, 58), "same"),
        ((3, 31, 59), (2, 30, 58), "shifted"),
        ((1, 29, 57), (2, 30, 58), "shifted"),
        ((2, 30, 58), (2, 31, 58), "shifted"),
        ((4, 32, 60), (2, 30, 58), "far"),
        ((2, 30, 40), (2, 30, 58), "far"),
        ((2, 30), (2, 30, 58), "far"),
        ((0, 30, 58), (1, 30, 58), "far"),  # the embedding has passed no layer
        ((1, 30, 58), (0, 30, 58), "shifted"),
    ],
)
def test_the_distance_between_layers(captured: tuple[int, ...], trained: tuple[int, ...], found: str) -> None:
    assert distance(captured, trained) == found


@given(OF, OF)
def test_unknown_is_neither_better_nor_worse_than_itself(one: str, other: str) -> None:
    assert not (is_better(one, other) and is_worse(one, other))
    if "unknown" not in (one, other):
        assert is_better(one, other) == is_worse(other, one)


@given(OF)
def test_nothing_is_known_to_be_better_by_being_unknown(before: str) -> None:
    assert not is_better("unknown", before)
    assert is_better("served", before) == (before != "served")


def test_without_a_target_nobody_knows_which_layers_arrive(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft", [1, 3, 4])
    found = load_plan(facts_of(folder, None), contracts()["vllm"], "0.33.0")
    assert found.outcome == "unknown"
    assert found.reasons == ("which layers reach the draft: the target is not known (--target PATH)",)
    assert not found.is_load_open


def test_a_quantised_draft_is_not_said_to_be_served(tmp_path: Path) -> None:
    odd = {"quantization_config": {"quant_method": "fp8"}}
    folder = draft(tmp_path / "draft", [1, 3, 4], **odd)
    beside = target(tmp_path / "target", "LlamaForCausalLM", 8, "llama")
    found = load_plan(facts_of(folder, beside), contracts()["vllm"], "0.33.0")
    assert (found.outcome, found.is_load_open) == ("unknown", True)


def test_a_config_without_its_sizes_is_open_and_not_served(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft", [1, 3, 4], model_type="mistral3", intermediate_size=...)
    beside = target(tmp_path / "target", "LlamaForCausalLM", 8, "llama")
    found = load_plan(facts_of(folder, beside), contracts()["sglang"], "0.5.23")
    assert found.outcome in ("unknown", "refused")


@pytest.mark.parametrize("engine", ["mlx-vlm", "openvino", "tensorrt-llm", "lmdeploy"])
def test_one_class_does_not_stand_for_every_kind_of_draft(engine: str) -> None:
    contract = contracts()[engine]
    found = load_plan(trainer("spec_dflash_qwen3"), contract, contract.newest)
    assert found.outcome == "unknown"
    assert found.errors == ()


def test_the_evidence_of_a_part_does_not_hang_on_the_order_of_calls() -> None:
    """Twice the same plan, once after others were made with the same contract: the same confidence."""
    facts, contract = trainer("spec_eagle3_llama"), contracts()["vllm"]
    first = load_plan(facts, contract, "0.33.0")
    for version in contract.releases:
        load_plan(facts, contract, version)
    again = load_plan(facts, contract, "0.33.0")
    assert (first.loading_executed, first.capture_executed, first.wiring_executed) == (
        again.loading_executed,
        again.capture_executed,
        again.wiring_executed,
    )
