"""Rotary settings of the draft against those of its target."""

from __future__ import annotations

from typing import Any

from measuring.configs import KNOWN, config_of, target_of

from ckptdoctor.facts.rope.positions import read_positions
from ckptdoctor.facts.rope.target import RopeOfBoth, compare_rope
from ckptdoctor.unknown import Unknown


def both(draft: dict[str, Any], target: dict[str, Any], *, block: bool = False) -> RopeOfBoth:
    config = config_of({"hidden_size": 64, **draft})
    positions = read_positions(config, KNOWN.fields["positions"])
    found = compare_rope(config, positions, block, target_of(target), KNOWN.words["rope"])
    assert not isinstance(found, Unknown)
    return found


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
