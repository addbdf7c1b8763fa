"""Key and value heads of a target, and how ranks share them."""

from __future__ import annotations

from typing import Any

import pytest
from measuring.configs import target_of

from ckptdoctor.facts.draft.attention_geometry import KeyValueShape, target_kv_shape
from ckptdoctor.unknown import Unknown


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
