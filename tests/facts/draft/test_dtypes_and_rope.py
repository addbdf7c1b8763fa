"""Measurements of dtypes, rotary scaling and key/value shapes, for any config that a file may hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import read_json
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.attention_geometry import KeyValueShape, target_kv_shape
from ckptdoctor.facts.draft.dtypes import own_dtype, read_dtypes, target_dtype
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.rope.positions import read_positions
from ckptdoctor.facts.rope.scaling import read_scaling
from ckptdoctor.facts.rope.target import RopeOfBoth, compare_rope
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Unknown

KNOWN = knowledge()


def config_of(value: dict[str, Any]) -> Config:
    return Config(read_json(json.dumps(value).encode(), "config.json"), KNOWN)


def target_of(value: dict[str, Any], **more: Any) -> Target:
    kind = value.get("model_type")
    kind = kind if isinstance(kind, str) else None
    return Target("t", None, kind, "", 64, 8, 512, (), None, config=value, document=value, **more)


def both(draft: dict[str, Any], target: dict[str, Any], *, block: bool = False) -> RopeOfBoth:
    config = config_of({"hidden_size": 64, **draft})
    positions = read_positions(config, KNOWN.fields["positions"])
    found = compare_rope(config, positions, block, target_of(target), KNOWN.words["rope"])
    assert not isinstance(found, Unknown)
    return found


@pytest.mark.parametrize("word", ["bfloat16", "torch.bfloat16", "BF16", "bf16"])
def test_a_dtype_is_understood_in_every_spelling(word: str) -> None:
    assert read_dtypes(config_of({"torch_dtype": word}), {}, None).declared == "bfloat16"


def test_an_engine_that_goes_by_the_config_takes_float16_for_float32_and_for_nothing() -> None:
    assert [own_dtype(v) for v in (["float32"], [None, None], ["bfloat16"], [None, "float16"])] == [
        "float16", "float16", "bfloat16", "float16",
    ]  # fmt: skip


def test_the_inner_config_of_a_target_says_its_dtype_before_the_outer() -> None:
    inner = {"dtype": "bfloat16"}
    wrapped = Target("t", None, None, "text_config", 1, 1, 1, (), None, config=inner, document={"dtype": "float32"})
    assert target_dtype(wrapped) == "bfloat16"
    assert isinstance(target_dtype(target_of({})), Unknown)


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ({"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}, KeyValueShape(8, 128)),
        ({"num_attention_heads": 32, "hidden_size": 4096}, KeyValueShape(32, 128)),
        ({"model_type": "qwen3", "num_attention_heads": 32, "hidden_size": 2560}, KeyValueShape(32, 128)),
        ({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 80}, KeyValueShape(8, 80)),
        ({"num_attention_heads": 32, "hidden_size": 4096, "kv_lora_rank": 512}, None),
        ({"num_attention_heads": "32"}, None),
    ],
)
def test_key_and_value_heads_of_a_target(target: dict[str, Any], shape: KeyValueShape | None) -> None:
    found = target_kv_shape(target_of(target))
    assert isinstance(found, Unknown) if shape is None else found == shape


def test_every_rank_keeps_one_head_at_least() -> None:
    assert [KeyValueShape(8, 128).page(ranks) for ranks in (1, 4, 8, 16, 0)] == [1024, 256, 128, 128, 1024]


def test_a_base_is_compared_with_the_targets_in_either_spelling() -> None:
    for target in ({"rope_theta": 5e6}, {"rope_parameters": {"rope_theta": 5000000}}):
        assert [(d.key, d.draft, d.target) for d in both({"rope_theta": 1e6}, target).unlike] == [
            ("rope_theta", 1e6, 5e6)
        ]
        assert both({"rope_theta": 5000000}, target).unlike == ()
        assert both({"rope_theta": 10000}, target).unlike == ()
        assert both({}, target).base_lost
        assert not both({"rope_theta": "1000000"}, target).base_lost
    assert not both({}, {"rope_theta": 10000.0}).base_lost
    assert not both({}, {"rope_theta": 1e6}, block=True).base_lost


def test_a_target_with_an_embedding_for_each_kind_of_layer_is_not_compared() -> None:
    config = config_of({"hidden_size": 64, "rope_theta": 1e6})
    positions = read_positions(config, KNOWN.fields["positions"])
    each = {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}}
    assert isinstance(compare_rope(config, positions, False, target_of(each), KNOWN.words["rope"]), Unknown)


def test_a_kind_lacks_what_it_cannot_do_without() -> None:
    def lacking(scaling: dict[str, Any], key: str = "rope_scaling") -> tuple[str, ...]:
        (found,) = read_scaling(config_of({key: scaling}), "", 16, KNOWN.words["rope"])
        return found.lacks

    assert lacking({"type": "yarn"}) == ("factor",)
    assert lacking({"type": "yarn", "factor": 4.0}) == ()
    assert lacking({"rope_type": "dynamic"}) == ("factor or alpha",)
    assert lacking({"factor": 4.0}) == ("rope_type",)
    assert lacking({"rope_theta": 10000.0}, "rope_parameters") == ()
    assert lacking({"rope_type": "llama3", "factor": 8.0}) == (
        "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    )  # fmt: skip


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
_ROPE = st.dictionaries(
    st.sampled_from(("rope_type", "type", "factor", "rope_theta", "mrope_section", "partial_rotary_factor")), _JSON
)
_CONFIGS = st.dictionaries(
    st.sampled_from((
        "torch_dtype", "dtype", "rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "model_type",
        "max_position_embeddings", "hidden_size", "head_dim", "num_attention_heads", "num_key_value_heads",
    )),
    _JSON | _ROPE,
)  # fmt: skip


@given(_CONFIGS, _CONFIGS, st.none() | st.integers(1, 2**39))
def test_nothing_that_a_config_may_hold_raises(draft: dict[str, Any], other: dict[str, Any], width: int | None) -> None:
    config = config_of(draft)
    positions = read_positions(config, KNOWN.fields["positions"])
    target = target_of(other)
    read_dtypes(config, {}, target)
    for found in read_scaling(config, positions.place, width, KNOWN.words["rope"]):
        assert found.pairs is None or found.pairs >= 0
    compare_rope(config, positions, False, target, KNOWN.words["rope"])
    target_kv_shape(target)
