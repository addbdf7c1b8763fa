"""What a draft's network is made of, by its files alone; and one sentence for every draft that cannot be run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builder.container import encode
from builder.values import random_tensor
from recipe_cases import RECIPES, SHARED, TRAINERS, Built, need_shared

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.probe.network.anatomy import Anatomy, Latent
from ckptdoctor.probe.network.anatomy_reading import anatomy_of, forward_customs, stated_wiring
from ckptdoctor.probe.wiring import Wiring


def facts_of(folder: Path, target: Path | None = None) -> Facts:
    return describe(open_checkpoint(str(folder)), None if target is None else read_target(str(target)))


def anatomy(folder: Path) -> Anatomy:
    return anatomy_of(facts_of(folder))


def stated(folder: Path) -> Wiring:
    facts = facts_of(folder)
    made = anatomy_of(facts)
    return stated_wiring(facts, made, made.states)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a trainer's draft whose config has other fields; None takes one away."""

    def make(name: str, **fields: Any) -> Path:
        folder = tmp_path / name
        shutil.copytree(TRAINERS / name, folder)
        config = json.loads((folder / "config.json").read_text())
        config.update(fields)
        kept = {key: value for key, value in config.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return make


def test_sizes_of_a_draft_of_specforge() -> None:
    made = anatomy(TRAINERS / "sf_eagle3_llama_sglang")
    assert (made.algorithm, made.attention, made.parallel) == ("eagle3", "llama", False)
    assert (made.hidden, made.target_width, made.states, made.layers) == (64, 64, 3, 1)
    assert (made.heads, made.kv_heads, made.head_dim) == (4, 2, 16)
    assert (made.vocab_size, made.draft_vocab_size) == (512, 128)
    assert (made.eps, made.activation, made.windows) == (1e-5, "silu", (None,))
    assert made.turning.base == 10000.0
    assert not made.turning.scaled


def test_several_layers_and_masked_positions() -> None:
    made = anatomy(TRAINERS / "sf_peagle_qwen3")
    assert made.parallel
    assert made.mask_hidden
    assert (made.layers, made.first_norms, made.mask_token) == (2, ("input_layernorm",), None)


def test_latent_attention(built: Built) -> None:
    made = anatomy(built.path(RECIPES["mla-eagle3"]))
    assert (made.attention, made.heads, made.head_dim) == ("mla", made.kv_heads, 24)
    assert made.latent == Latent(query=48, key_value=32, plain=16, turned=8, value=16)
    assert (made.turning.dims, made.turning.interleaved, made.turning.base) == (8, True, 50000.0)


@pytest.mark.parametrize(
    "name",
    [
        "specforge-eagle3", "specforge-eagle3-fullvocab", "specforge-eagle31", "specforge-peagle", "speculators-eagle3",
        "speculators-eagle3-two-layers", "speculators-eagle3-qwen3", "speculators-eagle3-norm-before-fc",
        "speculators-eagle31", "speculators-eagle3-fullvocab", "model-optimizer-eagle3", "eagle-eagle3",
        "model-optimizer-eagle3-two-layers", "automodel-eagle3", "mla-eagle3",
    ],
)  # fmt: skip
def test_every_healthy_draft_has_an_anatomy(name: str, built: Built) -> None:
    folder = built.path(RECIPES[name])
    made = anatomy(folder)
    assert made.states * made.target_width == made.parts["fc.weight"].shape[1]
    assert stated(folder).states == tuple(range(made.states))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eagle-eagle1-safetensors", "EAGLE-1"),
        ("specforge-dflash", "DFlash"),
        ("speculators-mtp", "MTP"),
        ("medusa-original", "Medusa"),
        ("plain-model", "only EAGLE-3 and P-EAGLE"),
        ("quantised-fp8", "quantised"),
        ("quantised-gptq", "quantised"),
        ("quantised-fp8-blocks", "quantised"),
    ],
)
def test_what_cannot_be_run_says_so(name: str, words: str, built: Built) -> None:
    with pytest.raises(CannotExamineError, match=words):
        anatomy(built.path(RECIPES[name]))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_act": "snake"}, "snake"),
        ({"head_dim": None, "num_attention_heads": 5}, "num_attention_heads"),
        ({"rope_parameters": {"rope_type": "spiral", "rope_theta": 10000.0}}, "spiral"),
    ],
)
def test_a_config_that_does_not_fit_says_so(fields: dict[str, Any], words: str, changed: Callable[..., Path]) -> None:
    with pytest.raises(CannotExamineError, match=words):
        anatomy(changed("sf_eagle3_llama_sglang", **fields))


def _with_tensors(folder: Path, **shapes: tuple[int, ...] | None) -> Path:
    """The draft's tensors with others in their place; None takes one away. Dots are written as two underscores."""
    header = {name: info.shape for name, info in open_checkpoint(str(folder)).tensors.items() if info.dtype == "BF16"}
    for name, shape in shapes.items():
        stored = name.replace("__", ".")
        header.pop(stored, None)
        if shape is not None:
            header[stored] = shape
    (folder / "model.safetensors").write_bytes(encode({n: random_tensor(n, s) for n, s in header.items()}))
    return folder


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"midlayer__mlp__up_proj__weight": None}, r"layers\.0\.mlp\."),
        ({"midlayer__self_attn__v_proj__weight": (32, 64)}, "v_proj"),
        ({"midlayer__hidden_norm__weight": None}, "hidden_norm"),
        ({"norm__weight": (63,)}, "norm.weight"),
        ({"fc__weight": (64, 190)}, "190"),
        ({"midlayer__self_attn__o_proj__weight": (64,)}, "o_proj"),
        ({"eh_proj__weight": (64, 128)}, "eh_proj"),
        ({"midlayer__self_attn__q_proj__weight": (62, 128)}, "fits"),
    ],
)
def test_a_part_that_is_missing_or_does_not_fit_is_named(
    tensors: dict[str, Any], words: str, changed: Callable[..., Path]
) -> None:
    folder = changed("sf_eagle3_llama_sglang", head_dim=None)
    with pytest.raises(CannotExamineError, match=words):
        anatomy(_with_tensors(folder, **tensors))


def test_projections_that_are_stored_as_one_are_told_apart(changed: Callable[..., Path]) -> None:
    folder = _with_tensors(
        changed("sf_eagle3_llama_sglang"),
        midlayer__self_attn__q_proj__weight=None, midlayer__self_attn__k_proj__weight=None,
        midlayer__self_attn__v_proj__weight=None, midlayer__self_attn__qkv_proj__weight=(128, 128),
        midlayer__mlp__gate_proj__weight=None, midlayer__mlp__up_proj__weight=None,
        midlayer__mlp__gate_up_proj__weight=(256, 64),
    )  # fmt: skip
    parts = anatomy(folder).parts
    places = {name: (parts[f"layers.0.{name}.weight"].first, parts[f"layers.0.{name}.weight"].shape[0]) for name in (
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")}  # fmt: skip
    assert places == {
        "self_attn.q_proj": (0, 64), "self_attn.k_proj": (64, 32), "self_attn.v_proj": (96, 32),
        "mlp.gate_proj": (0, 128), "mlp.up_proj": (128, 128),
    }  # fmt: skip


def test_the_norms_of_the_states_by_the_words_of_kimi(changed: Callable[..., Path]) -> None:
    words = {f"aux_norm_{word}__weight": (64,) for word in ("low", "mid", "high")}
    folder = _with_tensors(changed("sf_eagle3_llama_sglang"), **words)
    made = anatomy(folder)
    assert made.fc_norm
    assert made.parts["fc_norm.2.weight"].name == "aux_norm_high.weight"
    assert stated(folder).fc_norm


def test_the_width_of_a_target_that_is_wider(changed: Callable[..., Path]) -> None:
    folder = _with_tensors(changed("sf_eagle3_llama_sglang", target_hidden_size=96), fc__weight=(64, 288))
    assert (anatomy(folder).target_width, anatomy(folder).states) == (96, 3)


def test_windows_of_the_layers_that_slide(changed: Callable[..., Path]) -> None:
    fields = {"sliding_window": 9, "layer_types": ["sliding_attention"]}
    layer = json.loads((TRAINERS / "spec_eagle3_llama" / "config.json").read_text())["transformer_layer_config"]
    folder = changed("spec_eagle3_llama", transformer_layer_config={**layer, **fields})
    assert anatomy(folder).windows == (9,)
    switched = {**layer, **fields, "model_type": "qwen3", "use_sliding_window": False}
    shutil.rmtree(folder)
    assert anatomy(changed("spec_eagle3_llama", transformer_layer_config=switched)).windows == (None,)
    other = changed("sf_eagle3_llama_sglang", **fields)
    assert anatomy(other).windows == (None,)  # SpecForge's class reads neither


# --- the wiring as the files state it ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "expected"),
    [(None, (False, True)), (True, (False, True)), (False, (False, False))],
)
def test_norm_output_of_specforge_is_about_the_head(
    output: bool | None, expected: tuple[bool, bool], changed: Callable[..., Path]
) -> None:
    wiring = stated(changed("sf_eagle3_llama_sglang", norm_output=output))
    assert (wiring.norm_output, wiring.head_norm) == expected


@pytest.mark.parametrize("output", [None, True, False])
def test_norm_output_of_speculators_is_about_the_next_step(output: bool | None, changed: Callable[..., Path]) -> None:
    wiring = stated(changed("spec_eagle3_llama", norm_output=output))
    assert (wiring.norm_output, wiring.head_norm) == (bool(output), True)


def test_the_residual_is_what_the_writer_reads(changed: Callable[..., Path]) -> None:
    assert stated(TRAINERS / "spec_eagle3_llama").residual_after_norm
    assert not stated(changed("spec_eagle3_llama", norm_before_residual=None)).residual_after_norm
    assert not stated(changed("sf_eagle3_llama_sglang", norm_before_residual=True)).residual_after_norm
    assert stated(changed("sf_peagle_qwen3", norm_before_residual=True)).residual_after_norm


def test_a_trainer_that_knows_no_scaling_is_not_scaled(changed: Callable[..., Path]) -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    assert not stated(changed("sf_peagle_qwen3", rope_parameters=yarn)).rope_scaling
    assert stated(changed("sf_eagle3_llama_sglang", rope_parameters=yarn)).rope_scaling
    assert stated(TRAINERS / "mo_eagle3_llama").rope_scaling


def test_the_base_of_a_trainer_that_fixes_it() -> None:
    assert stated(TRAINERS / "eagle_ref_eagle3_safetensors").rope_base == 10000.0


def test_columns_are_found_by_their_boundaries() -> None:
    folder = TRAINERS / "spec_eagle3_llama"
    facts = facts_of(folder, folder / "target")
    made = anatomy_of(facts)
    ids = facts.draft.aux.ids
    assert ids is not None
    assert stated_wiring(facts, made, [8, *reversed(ids), None]).states == (3, 2, 1)
    assert stated_wiring(facts, made, [None, None, None, None]).states == (0, 1, 2)
    assert stated_wiring(facts, made, 2).states == (0, 1)


def test_conventions_of_the_writers_are_known_words() -> None:
    words = {
        "residual": {"before_norm", "configured"}, "norm_output": {"head", "unread", "next_step"},
        "rope_scaling": {"unread", "at_export"}, "yarn_factor": {"ratio"}, "partial_rotary": {"unread"},
        "windows": {"unread"}, "dynamic_rows": {20},
    }  # fmt: skip
    for writer in knowledge().writers.values():
        for algorithm, own in writer.conventions.get("forward", {}).items():
            assert algorithm in ("eagle3", "peagle")
            assert {key for key, value in own.items() if value not in words[key]} == set()


def test_an_unknown_writer_means_what_engines_take_it_for(changed: Callable[..., Path]) -> None:
    folder = changed("spec_eagle3_llama")
    facts = facts_of(folder)
    unknown = Facts(**{**facts.__dict__, "draft": _by_nobody(facts)})
    assert forward_customs(unknown) == {"residual": "configured"}


def _by_nobody(facts: Facts) -> Any:
    from dataclasses import replace

    return replace(facts.draft, writer=replace(facts.draft.writer, id="unknown"))


def test_every_draft_of_the_shared_folder_has_an_anatomy_or_a_reason() -> None:
    need_shared("drafts")
    for folder in sorted((SHARED / "drafts").iterdir()):
        if not (folder / "config.json").is_file() or list(folder.glob("*.bin")) or list(folder.glob("*.pt")):
            continue
        facts = facts_of(folder)
        if facts.draft.algorithm in ("eagle3", "peagle"):
            assert anatomy_of(facts).states == 3
        else:
            with pytest.raises(CannotExamineError):
                anatomy_of(facts)
