"""The story of a draft, release by release: small drafts made here and those of fixtures/trainers."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring.plans import MIDLAYER, OUTSIDE, H, Make, Q, Shapes, V, fates, layer, left, parameter, plan, stages

from ckptdoctor.serving import contracts

TRAINERS = Path(__file__).resolve().parents[2] / "fixtures" / "trainers"
FLAT: Shapes = {**OUTSIDE, **layer("layers.0.")}


def test_a_flat_draft_loses_its_layer_on_0_5_11(made: Make) -> None:
    found = plan(made(FLAT), "0.5.11")
    assert [p.name for p in found.parameters if ".midlayer." in p.name] == left(found)
    assert len(left(found)) == 7
    assert sum(s.name.startswith("layers.0.") and s.fate == "dropped" for s in found.stored) == 10
    assert found.outcome == "broken"


def test_the_same_draft_is_whole_on_0_5_12(made: Make) -> None:
    found = plan(made(FLAT), "0.5.12")
    assert left(found) == []
    assert fates(found, "layers.0.") == {"used"}
    assert parameter(found, "model.layers.0.self_attn.qkv_proj.weight").keys == tuple(
        f"layers.0.self_attn.{part}_proj.weight" for part in "qkv"
    )


@pytest.mark.parametrize("release", ["0.4.9", "0.5.4", "0.5.11", "0.5.12", "0.5.23"])
def test_a_midlayer_draft_is_whole_everywhere(made: Make, release: str) -> None:
    assert left(plan(made(MIDLAYER), release)) == []


def test_before_0_4_9_a_flat_draft_does_not_load(made: Make) -> None:
    found = plan(made(FLAT), "0.4.7")
    assert stages(found)[0] == "load"
    assert "names no parameter" in found.errors[0].reason


def test_keys_with_a_prefix_load_from_0_4_9(made: Make) -> None:
    shapes = {f"model.{k}" if k not in ("lm_head.weight", "d2t") else k: shape for k, shape in MIDLAYER.items()}
    assert left(plan(made(shapes), "0.4.9")) == []
    assert left(plan(made(shapes), "0.5.23")) == []
    assert stages(plan(made(shapes), "0.4.7"))[0] == "load"


def test_a_tied_draft_loses_its_head(made: Make) -> None:
    found = plan(made(MIDLAYER, tie_word_embeddings=True), "0.5.23")
    assert [p.name for p in found.parameters if p.name == "lm_head.weight"] == []
    assert fates(found, "lm_head") == {"dropped"}


def test_a_draft_without_draft_vocab_size_is_refused(made: Make) -> None:
    found = plan(made(MIDLAYER, draft_vocab_size=...), "0.5.23")
    assert stages(found)[0] == "construct"
    assert "draft_vocab_size" in found.errors[0].reason


@pytest.mark.parametrize(("release", "refused"), [("0.5.1.post3", True), ("0.5.2", False)])
def test_a_null_draft_vocab_size_means_the_head_of_the_target_from_0_5_2(
    made: Make, release: str, refused: bool
) -> None:
    found = plan(made({**MIDLAYER, "lm_head.weight": (V, H)}, draft_vocab_size=None), release)
    assert (stages(found)[:1] == ["construct"]) is refused
    if not refused:
        assert parameter(found, "lm_head.weight").shared
        assert fates(found, "lm_head") == {"dropped"}


def test_two_layers_are_refused_before_0_5_12(made: Make) -> None:
    shapes = {**FLAT, **layer("layers.1.", H)}
    assert stages(plan(made(shapes, num_hidden_layers=2), "0.5.11"))[0] == "construct"


def test_two_layers_are_built_from_0_5_12(made: Make) -> None:
    found = plan(made({**FLAT, **layer("layers.1.", H)}, num_hidden_layers=2), "0.5.12")
    assert left(found) == []
    assert not parameter(found, "model.layers.1.input_layernorm.weight").used
    assert fates(found, "layers.1.input_layernorm") == {"dropped"}


def test_a_depth_copied_from_the_target_leaves_layers_empty(made: Make) -> None:
    found = plan(made(FLAT, num_hidden_layers=4), "0.5.23")
    assert {name.split(".")[2] for name in left(found)} == {"1", "2", "3"}
    assert found.outcome == "broken"


def test_bias_true_makes_a_bias_of_fc_and_one_of_o_proj(made: Make) -> None:
    found = plan(made(MIDLAYER, bias=True), "0.5.23")
    assert left(found) == ["model.layers.0.self_attn.o_proj.bias", "model.fc.bias"]


def test_fc_always_has_a_bias_before_0_4_9(made: Make) -> None:
    assert "model.fc.bias" in left(plan(made(MIDLAYER), "0.4.8"))
    assert "model.fc.bias" not in left(plan(made(MIDLAYER), "0.4.9"))


@pytest.mark.parametrize("part", ["q", "k", "v"])
def test_one_missing_projection_leaves_its_rows_empty(made: Make, part: str) -> None:
    shapes = {k: shape for k, shape in MIDLAYER.items() if f"{part}_proj" not in k or "self_attn" not in k}
    found = plan(made(shapes), "0.5.23")
    qkv = parameter(found, "model.layers.0.self_attn.qkv_proj.weight")
    assert (qkv.state, qkv.parts_missing) == ("partly", (f"{part}_proj",))
    assert found.outcome == "broken"


def test_a_projection_that_is_too_large_is_cut_in_silence(made: Make) -> None:
    found = plan(made({**MIDLAYER, "midlayer.self_attn.q_proj.weight": (2 * Q, 2 * H)}), "0.5.23")
    assert stages(found) == []
    assert [s.name for s in found.stored if s.resized] == ["midlayer.self_attn.q_proj.weight"]
    assert found.outcome == "broken"


def test_a_projection_that_is_too_small_is_refused(made: Make) -> None:
    assert stages(plan(made({**MIDLAYER, "midlayer.self_attn.q_proj.weight": (Q // 2, 2 * H)}), "0.5.23"))[0] == "load"


@pytest.mark.parametrize(("release", "filled"), [("0.5.2", False), ("0.5.3", True)])
def test_an_output_projection_that_is_too_small_is_filled_with_zeros_from_0_5_3(
    made: Make, release: str, filled: bool
) -> None:
    found = plan(made({**MIDLAYER, "midlayer.self_attn.o_proj.weight": (H, Q // 2)}), release)
    assert any(s.resized for s in found.stored) is filled
    assert (stages(found)[:1] == ["load"]) is not filled


@pytest.mark.parametrize(("release", "states"), [("0.5.11", 3), ("0.5.12", 4)])
def test_four_captured_layers_need_0_5_12(made: Make, release: str, states: int) -> None:
    ids = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}
    found = plan(made({**MIDLAYER, "fc.weight": (H, 4 * H)}, eagle_config=ids), release)
    assert parameter(found, "model.fc.weight").shape == (H, states * H)
    assert (stages(found)[:1] == ["load"]) is (states == 3)


def test_a_draft_without_a_map_does_not_start_before_0_4_9(made: Make) -> None:
    shapes = {k: shape for k, shape in MIDLAYER.items() if k != "d2t"}
    assert stages(plan(made(shapes), "0.4.7")) == ["start"]
    assert stages(plan(made(shapes), "0.4.9")) == []


@pytest.mark.parametrize("name", ["mo_eagle3_llama", "sf_eagle3_llama_sglang", "mo_dflash_qwen3"])
def test_drafts_of_trainers_are_whole_on_the_newest_release(name: str) -> None:
    found = plan(TRAINERS / name, contracts()["sglang"].newest)
    assert left(found) == []
    assert stages(found) == []
