"""The story that ckptdoctor was written for: one draft of a 61-layer target, and what eight SGLang releases do with it.

The trainer meant boundaries [2, 30, 58] and wrote these numbers. SGLang took an id for the layer whose output is
meant, forgot the decoder layer, and later changed its mind about both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import story_drafts
from story_drafts import draft, facts_of, target

from ckptdoctor.facts import Facts
from ckptdoctor.serving import LoadPlan, contracts

Tell = Callable[..., Facts]
LAYER = (
    "model.midlayer.self_attn.qkv_proj.weight", "model.midlayer.self_attn.o_proj.weight",
    "model.midlayer.mlp.gate_up_proj.weight", "model.midlayer.mlp.down_proj.weight",
)  # fmt: skip
NORMS = (
    "model.midlayer.input_layernorm.weight", "model.midlayer.post_attention_layernorm.weight",
    "model.midlayer.hidden_norm.weight",
)  # fmt: skip
LATER = [r for r in contracts()["sglang"].releases if r.startswith("0.5.") and int(r.split(".")[2]) >= 13]
EAGLE = "python -m sglang.launch_server --model-path target --speculative-algorithm EAGLE"
EAGLE3 = "python -m sglang.launch_server --model-path target --speculative-algorithm EAGLE3"
PLAIN = ("DeepseekV3ForCausalLM", 61, "deepseek_v3")


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    def told(
        ids: Sequence[int], of: tuple[str, int, str] = PLAIN, wrapped_as: str | None = None, **eagle: Any
    ) -> Facts:
        folder = draft(tmp_path / "draft", ids, nested=eagle)
        return facts_of(folder, target(tmp_path / "target", *of, wrapped_as=wrapped_as))

    return told


@pytest.fixture
def kimi(tell: Tell) -> Facts:
    return tell([2, 30, 58], ("KimiK25ForConditionalGeneration", 61, "deepseek_v3"), wrapped_as="kimi_k25")


def plan(facts: Facts, release: str, launch: str | None = None) -> LoadPlan:
    """What SGLang does, as the person asks it who knows that the trainer was speculators, and what its numbers mean."""
    return story_drafts.plan(facts, release, launch, trained_with="speculators")


def phases(found: LoadPlan) -> list[tuple[int, ...] | None]:
    """What is captured in extend, verify and verify under CUDA graphs."""
    assert list(found.captured) == ["extend", "verify", "verify_graph"]
    return list(found.captured.values())


def kinds(found: LoadPlan) -> list[str]:
    return [cause.kind for cause in found.causes if cause.level == found.outcome]


def refused_at(found: LoadPlan) -> list[str]:
    return [error.stage for error in found.errors]


def test_on_0_5_9_the_decoder_layer_is_left_empty_and_other_layers_are_captured(tell: Tell) -> None:
    found = plan(tell([2, 30, 58]), "0.5.9")
    assert found.left_random == LAYER
    assert found.left_at_ones == NORMS
    assert {s.name for s in found.stored if s.fate == "dropped" and s.parameter is None} >= {
        f"layers.0.{name}.weight"
        for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj", "hidden_norm", "input_layernorm")
    }
    assert phases(found) == [(3, 31, 59), (3, 31, 59), (2, 30, 58)]
    assert found.trained == (2, 30, 58)
    assert found.trained_certain
    assert (found.outcome, found.errors, kinds(found)) == ("broken", (), ["parameters_left"])
    shifted = next(cause for cause in found.causes if cause.kind == "shifted_layers")
    text = "captures boundaries [3, 31, 59] in extend and verify; trained on [2, 30, 58]: each at most one layer off"
    assert (shifted.level, shifted.text) == ("degraded", text)


def test_who_does_not_say_which_tool_it_was_is_told_both_readings(tell: Tell) -> None:
    found = story_drafts.plan(tell([2, 30, 58]), "0.5.12")
    assert (found.trained, found.trained_certain) == ((2, 30, 58), False)
    assert found.readings == ((2, 30, 58), (3, 31, 59))
    assert [c.kind for c in found.capture_causes] == ["two_readings"]


def test_without_cuda_graphs_there_is_no_third_phase(tell: Tell) -> None:
    found = plan(tell([2, 30, 58]), "0.5.9", f"{EAGLE3} --disable-cuda-graph")
    assert phases(found) == [(3, 31, 59), (3, 31, 59), None]


def test_on_0_5_11_the_graph_captures_what_the_eager_pass_does(tell: Tell) -> None:
    found = plan(tell([2, 30, 58]), "0.5.11")
    assert found.left_random == LAYER
    assert phases(found) == [(3, 31, 59)] * 3


def test_on_0_5_12_all_is_loaded_and_the_layers_are_still_others(tell: Tell) -> None:
    found = plan(tell([2, 30, 58]), "0.5.12")
    assert found.uninitialised == ()
    assert {s.name: s.why for s in found.stored if s.fate != "used"} == {
        "embed_tokens.weight": "the target's takes its place"
    }
    assert phases(found) == [(3, 31, 59)] * 3
    assert (found.outcome, kinds(found)) == ("degraded", ["shifted_layers"])


@pytest.mark.parametrize("release", LATER)
def test_from_0_5_13_on_the_ids_are_boundaries(tell: Tell, release: str) -> None:
    found = plan(tell([2, 30, 58]), release)
    assert found.uninitialised == ()
    assert phases(found) == [(2, 30, 58)] * 3


def test_the_layers_before_are_what_0_5_12_wants_and_0_5_13_does_not(tell: Tell) -> None:
    facts = tell([1, 29, 57])
    assert phases(plan(facts, "0.5.12")) == [(2, 30, 58)] * 3
    # The first id is 1, and by that sign alone later releases add one again.
    assert phases(plan(facts, "0.5.13")) == [(2, 30, 58)] * 3


def test_inside_kimi_k2_5_0_5_9_is_refused(kimi: Facts) -> None:
    found = plan(kimi, "0.5.9")
    assert (found.outcome, refused_at(found)) == ("refused", ["start"])
    assert found.reasons == ("KimiK25ForConditionalGeneration cannot pass captured states on before SGLang 0.5.10",)


@pytest.mark.parametrize(
    ("release", "extend", "graph", "whole"),
    [
        ("0.5.10", (3, 31, 59), (2, 30, 58), False),
        ("0.5.11", (3, 31, 59), (3, 31, 59), False),
        ("0.5.12", (3, 31, 59), (3, 31, 59), True),
        ("0.5.13", (2, 30, 58), (2, 30, 58), True),
        ("0.5.23", (2, 30, 58), (2, 30, 58), True),
    ],
)
def test_inside_kimi_k2_5_the_rest_is_the_same_story(
    kimi: Facts, release: str, extend: tuple[int, ...], graph: tuple[int, ...], whole: bool
) -> None:
    found = plan(kimi, release)
    assert phases(found) == [extend, extend, graph]
    assert found.left_random == (() if whole else LAYER)
    assert refused_at(found) == []


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12", "0.5.13"])
def test_a_minus_one_asks_for_boundary_0_which_is_not_there(tell: Tell, release: str) -> None:
    found = plan(tell([-1, 2, 30]), release)
    assert found.trained == (0, 3, 31)
    assert found.outcome == "refused"
    assert set(refused_at(found)) == {"first_forward"}
    if release != "0.5.13":
        assert phases(found)[0] == (3, 31)
        assert found.reasons[0] == "boundary 0 of 61 cannot be captured in this target class"


@pytest.mark.parametrize("release", [r for r in LATER if r not in ("0.5.13", "0.5.13.post1")])
def test_from_0_5_14_on_a_minus_one_is_taken_as_it_is_and_two_states_arrive(tell: Tell, release: str) -> None:
    found = plan(tell([-1, 2, 30]), release)
    assert phases(found) == [(2, 30)] * 3
    assert (found.outcome, set(refused_at(found))) == ("refused", {"first_forward"})
    assert "2 states are captured [2, 30], and fc takes 3" in found.reasons


@pytest.mark.parametrize("release", [r for r in LATER if r not in ("0.5.13", "0.5.13.post1")])
def test_0_3_31_is_what_gives_these_boundaries_there(tell: Tell, release: str) -> None:
    found = plan(tell([0, 3, 31]), release)
    assert phases(found) == [(0, 3, 31)] * 3
    assert found.errors == ()


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12", "0.5.23"])
def test_on_a_qwen3_target_a_minus_one_works(tell: Tell, release: str) -> None:
    found = plan(tell([-1, 2, 30], ("Qwen3ForCausalLM", 61, "qwen3")), release)
    graph = (2, 30, 58) if release == "0.5.9" else (0, 3, 31)
    assert phases(found) == [(0, 3, 31), (0, 3, 31), graph]
    assert found.errors == ()
    assert ("other_layers" in kinds(found)) is (release == "0.5.9")


def test_use_aux_hidden_state_false_bypasses_fc_on_0_5_9(tell: Tell) -> None:
    found = plan(tell([2, 30, 58], use_aux_hidden_state=False), "0.5.9")
    assert found.wiring["fc"] == "skipped"
    assert found.wiring["final_state"] is True
    assert phases(found) == [None] * 3


def test_use_aux_hidden_state_is_not_read_before_0_5_8(tell: Tell) -> None:
    found = plan(tell([2, 30, 58], use_aux_hidden_state=False), "0.5.7")
    assert (found.wiring["fc"], found.wiring["final_state"]) == ("applied", False)
    assert phases(found)[0] == (3, 31, 59)


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12", "0.5.23"])
def test_the_algorithm_eagle_bypasses_fc(tell: Tell, release: str) -> None:
    facts = tell([2, 30, 58])
    assert plan(facts, release).wiring["fc"] == "applied"
    assert plan(facts, release, EAGLE3).wiring["fc"] == "applied"
    found = plan(facts, release, EAGLE)
    assert (found.wiring["fc"], found.outcome) == ("skipped", "broken")
    assert "fc_skipped" in kinds(found)


def test_nextn_is_another_word_for_eagle(tell: Tell) -> None:
    found = plan(tell([2, 30, 58]), "0.5.12", EAGLE.replace("EAGLE", "NEXTN"))
    assert found.wiring["fc"] == "skipped"


def test_without_ids_the_default_boundaries_are_captured(tmp_path: Path) -> None:
    facts = facts_of(draft(tmp_path / "draft"), target(tmp_path / "target", *PLAIN))
    for release in ("0.5.9", "0.5.12", "0.5.13", "0.5.23"):
        assert phases(plan(facts, release)) == [(2, 30, 58)] * 3
