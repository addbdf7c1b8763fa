"""Kinds of rotary scaling, and what each cannot do without."""

from __future__ import annotations

from typing import Any

from measuring.configs import KNOWN, config_of

from ckptdoctor.facts.rope.scaling import read_scaling


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
