"""The story of a draft, release by release: small drafts made here and those of fixtures/trainers."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.plan import LoadPlan, Parameter

TRAINERS = Path(__file__).resolve().parents[2] / "fixtures" / "trainers"
H, MLP, Q, KV, V, D = 64, 96, 64, 32, 512, 128
Make = Callable[..., Path]
Shapes = Mapping[str, tuple[int, ...]]

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": MLP,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": V,
    "draft_vocab_size": D,
    "num_hidden_layers": 1,
    "tie_word_embeddings": False,
}


def layer(
    prefix: str, width: int = 2 * H, *, norms: tuple[str, ...] = ("input_layernorm", "hidden_norm")
) -> dict[str, tuple[int, ...]]:
    """A decoder layer as EAGLE-3 stores it: ten tensors."""
    found: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (Q, width),
        "self_attn.k_proj.weight": (KV, width),
        "self_attn.v_proj.weight": (KV, width),
        "self_attn.o_proj.weight": (H, Q),
        "mlp.gate_proj.weight": (MLP, H),
        "mlp.up_proj.weight": (MLP, H),
        "mlp.down_proj.weight": (H, MLP),
        "post_attention_layernorm.weight": (H,),
    }
    found |= {f"{norm}.weight": (H,) for norm in norms}
    return {prefix + name: shape for name, shape in found.items()}


OUTSIDE: Shapes = {"fc.weight": (H, 3 * H), "norm.weight": (H,), "lm_head.weight": (D, H), "d2t": (D,)}
FLAT: Shapes = {**OUTSIDE, **layer("layers.0.")}
MIDLAYER: Shapes = {**OUTSIDE, **layer("midlayer.")}
BLOCK: Shapes = {
    "fc.weight": (H, 3 * H),
    "norm.weight": (H,),
    "hidden_norm.weight": (H,),
    **layer("layers.0.", H, norms=("input_layernorm",)),
    "layers.0.self_attn.q_norm.weight": (16,),
    "layers.0.self_attn.k_norm.weight": (16,),
}
BLOCK_CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [0, 2, 4], "mask_token_id": 5},
}


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """A draft of zeros with these tensors and this config (a value of `...` takes a key out)."""

    def make(shapes: Shapes, **config: Any) -> Path:
        folder = tmp_path / "draft"
        folder.mkdir(exist_ok=True)
        values = {key: value for key, value in {**CONFIG, **config}.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
        header: dict[str, Any] = {}
        end = 0
        for name, shape in shapes.items():
            size = math.prod(shape) * (8 if name == "d2t" else 2)
            header[name] = {
                "dtype": "I64" if name == "d2t" else "BF16",
                "shape": list(shape),
                "data_offsets": [end, end + size],
            }
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
        return folder

    return make


def plan(folder: Path, release: str, engine: str = "sglang") -> LoadPlan:
    target = folder / "target"
    facts = describe(open_checkpoint(str(folder)), read_target(str(target)) if target.is_dir() else None)
    return load_plan(facts, contracts()[engine], release)


def parameter(found: LoadPlan, name: str) -> Parameter:
    return next(p for p in found.parameters if p.name == name)


def left(found: LoadPlan) -> list[str]:
    return [p.name for p in found.parameters if not p.keys and not p.shared]


def stages(found: LoadPlan) -> list[str]:
    return [e.stage for e in found.errors]


def fates(found: LoadPlan, prefix: str) -> set[str]:
    return {s.fate for s in found.stored if s.name.startswith(prefix)}


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


def test_a_name_of_a_target_is_built_as_that_model(made: Make) -> None:
    found = plan(made({**MIDLAYER, "lm_head.weight": (V, H)}, architectures=["LlamaForCausalLM"]), "0.5.23")
    assert found.model_class == "LlamaForCausalLM"
    assert fates(found, "midlayer.") == {"dropped_with_warning"}
    assert found.outcome == "broken"


@pytest.mark.parametrize(
    ("release", "name", "built"),
    [
        ("0.5.9", "Qwen3MoeForCausalLM", "Qwen3MoeForCausalLM"),
        ("0.5.13", "Qwen3MoeForCausalLM", "Qwen3MoeForCausalLMMTP"),
    ],
)
def test_a_class_without_a_table_claims_nothing(made: Make, release: str, name: str, built: str) -> None:
    found = plan(made(MIDLAYER, architectures=[name]), release)
    assert (found.model_class, found.parameters, found.errors) == (built, (), ())
    assert built in found.unproven[0]


@pytest.mark.parametrize(
    ("names", "stage"),
    [(["DominoDraftModel"], "class"), ([], "class"), (None, "class"), (["No", "LlamaForCausalLMEagle3"], None)],
)
def test_the_first_name_with_a_class_is_built(made: Make, names: object, stage: str | None) -> None:
    assert stages(plan(made(MIDLAYER, architectures=names), "0.5.23"))[:1] == ([stage] if stage else [])


@pytest.mark.parametrize(("release", "refused"), [("0.5.9", False), ("0.5.10", True)])
def test_a_config_without_model_type_stops_from_0_5_10(made: Make, release: str, refused: bool) -> None:
    found = plan(made(MIDLAYER, model_type=...), release)
    assert (stages(found)[:1] == ["config"]) is refused
    assert any("model_type" in text for text in found.unproven) is not refused


MLA_CONFIG: dict[str, Any] = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v3",
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": ...,
    "num_key_value_heads": 4,
}
MLA: Shapes = {
    **OUTSIDE,
    "layers.0.self_attn.q_a_proj.weight": (32, 2 * H),
    "layers.0.self_attn.kv_a_proj_with_mqa.weight": (24, 2 * H),
    "layers.0.self_attn.q_a_layernorm.weight": (32,),
    "layers.0.self_attn.kv_a_layernorm.weight": (16,),
    "layers.0.self_attn.q_b_proj.weight": (96, 32),
    "layers.0.self_attn.kv_b_proj.weight": (128, 16),
    "layers.0.self_attn.o_proj.weight": (H, 64),
    "layers.0.mlp.gate_proj.weight": (MLP, H),
    "layers.0.mlp.up_proj.weight": (MLP, H),
    "layers.0.mlp.down_proj.weight": (H, MLP),
    "layers.0.input_layernorm.weight": (H,),
    "layers.0.hidden_norm.weight": (H,),
    "layers.0.post_attention_layernorm.weight": (H,),
}


def test_latent_attention_needs_0_5_12(made: Make) -> None:
    folder = made(MLA, **MLA_CONFIG)
    assert stages(plan(folder, "0.5.11"))[0] == "class"
    assert left(plan(folder, "0.5.12")) == []


@pytest.mark.parametrize("lost", ["q_a_proj", "kv_a_proj_with_mqa"])
def test_half_of_the_fused_projection_is_forgotten(made: Make, lost: str) -> None:
    found = plan(made({k: shape for k, shape in MLA.items() if f".{lost}." not in k}, **MLA_CONFIG), "0.5.23")
    assert left(found) == ["model.midlayer.self_attn.fused_qkv_a_proj_with_mqa.weight"]
    kept = {"q_a_proj", "kv_a_proj_with_mqa"} - {lost}
    assert fates(found, f"layers.0.self_attn.{kept.pop()}.") == {"dropped"}


@pytest.mark.parametrize(("release", "refused"), [("0.5.17", True), ("0.5.18", False)])
def test_honest_ids_without_num_target_layers_are_refused_before_0_5_18(
    made: Make, release: str, refused: bool
) -> None:
    found = plan(made(BLOCK, **BLOCK_CONFIG), release)
    assert ("construct" in stages(found)) is refused
    assert left(plan(made(BLOCK, **BLOCK_CONFIG, num_target_layers=8), release)) == []


def test_a_block_drafter_without_ids_takes_as_many_states_as_it_has_layers(made: Make) -> None:
    shapes = {**BLOCK, "fc.weight": (H, H)}
    found = plan(made(shapes, **BLOCK_CONFIG | {"dflash_config": {"mask_token_id": 5}}), "0.5.23")
    assert parameter(found, "fc.weight").shape == (H, H)


MARKOV: Shapes = {**BLOCK, "markov_head.markov_w1.weight": (V, 8), "markov_head.markov_w2.weight": (V, 8)}
DSPARK = BLOCK_CONFIG | {
    "architectures": ["DSparkDraftModel"],
    "markov_rank": 8,
    "markov_head_type": "vanilla",
    "num_target_layers": 8,
}


@pytest.mark.parametrize(
    ("release", "name", "known"),
    [
        ("0.5.15", "Qwen3DSparkModel", False),
        ("0.5.16", "Qwen3DSparkModel", True),
        ("0.5.16", "DSparkDraftModel", False),
        ("0.5.17", "DSparkDraftModel", True),
        ("0.5.18", "LingDSparkModel", False),
        ("0.5.19", "LingDSparkModel", True),
    ],
)
def test_the_names_of_dspark_drafts(made: Make, release: str, name: str, known: bool) -> None:
    assert (stages(plan(made(MARKOV, **DSPARK | {"architectures": [name]}), release)) == ["class"]) is not known


def test_a_dspark_draft_is_whole_and_its_confidence_head_passed_over(made: Make) -> None:
    found = plan(
        made({**MARKOV, "confidence_head.proj.weight": (1, H + 8), "confidence_head.proj.bias": (1,)}, **DSPARK),
        "0.5.23",
    )
    assert left(found) == []
    assert fates(found, "confidence_head.") == {"dropped"}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"markov_rank": ...}, "markov_rank"),
        ({"markov_head_type": ...}, "markov_head_type"),
        ({"markov_head_type": "tree"}, "tree"),
        ({"markov_rank": ..., "dspark_config": {"markov_rank": 8}}, "top level"),
        ({"markov_rank": ..., "dflash_config": {**BLOCK_CONFIG["dflash_config"], "markov_rank": 8}}, "top level"),
    ],
)
def test_a_dspark_draft_says_its_rank_at_the_top_level(made: Make, config: dict[str, Any], reason: str) -> None:
    found = plan(made(MARKOV, **DSPARK | config), "0.5.23")
    assert stages(found)[0] == "construct"
    assert reason in found.errors[0].reason


def test_an_unknown_markov_tensor_is_loud_where_others_are_dropped(made: Make) -> None:
    found = plan(made({**MARKOV, "markov_head.extra.weight": (4,), "extra.weight": (4,)}, **DSPARK), "0.5.23")
    assert stages(found)[0] == "load"
    assert (fates(found, "markov_head.extra"), fates(found, "extra")) == ({"rejected"}, {"dropped"})


@pytest.mark.parametrize(("release", "loud"), [("0.5.19", False), ("0.5.20", True)])
def test_domino_tensors_without_their_type_are_loud_from_0_5_20(made: Make, release: str, loud: bool) -> None:
    found = plan(made({**BLOCK, "prefix_gru.weight_ih_l0": (72, H)}, **BLOCK_CONFIG, num_target_layers=8), release)
    assert ("load" in stages(found)) is loud


@pytest.mark.parametrize("name", ["mo_eagle3_llama", "sf_eagle3_llama_sglang", "mo_dflash_qwen3"])
def test_drafts_of_trainers_are_whole_on_the_newest_release(name: str) -> None:
    found = plan(TRAINERS / name, contracts()["sglang"].newest)
    assert left(found) == []
    assert stages(found) == []


def test_eagle_1_keys_must_not_have_a_prefix(made: Make) -> None:
    body = {"fc.weight": (H, 2 * H), "fc.bias": (H,), **layer("layers.0.", H, norms=())}
    config = {"architectures": ["LlamaForCausalLMEagle"], "draft_vocab_size": ...}
    assert left(plan(made(body, **config), "0.5.23")) == []
    found = plan(made({f"model.{k}": shape for k, shape in body.items()}, **config), "0.5.23")
    assert "model.fc.weight" in left(found)
    assert found.outcome == "broken"


def test_an_eagle_1_draft_without_a_bias_keeps_a_random_one(made: Make) -> None:
    body = {"fc.weight": (H, 2 * H), **layer("layers.0.", H, norms=())}
    found = plan(made(body, architectures=["LlamaForCausalLMEagle"], draft_vocab_size=...), "0.5.23")
    assert left(found) == ["model.fc.bias"]
