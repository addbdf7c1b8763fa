"""Measurements of dtypes, rotary scaling and key/value shapes, for any config that a file may hold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from measuring.configs import KNOWN, config_of, target_of

from ckptdoctor.facts.draft.attention_geometry import target_kv_shape
from ckptdoctor.facts.draft.dtypes import read_dtypes
from ckptdoctor.facts.rope.positions import read_positions
from ckptdoctor.facts.rope.scaling import read_scaling
from ckptdoctor.facts.rope.target import compare_rope

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
