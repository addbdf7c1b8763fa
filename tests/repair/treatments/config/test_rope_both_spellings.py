"""The rotary settings are written in both spellings, unless they differ already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from treating.configs import changed, is_safe, told_of
from treatment_cases import plan, settings, write

NESTED = "transformer_layer_config"


def test_the_base_is_written_in_the_old_spelling_too(tmp_path: Path) -> None:
    draft = changed(config={"rope_theta": ..., "rope_parameters.rope_theta": 5e5})
    told = told_of(draft, tmp_path, "ROP001")
    assert settings(told) == {"rope_theta": 5e5}
    assert is_safe(told)


def test_scaling_is_written_beside_it_in_the_object_of_the_layer(tmp_path: Path) -> None:
    new = {"rope_theta": 10000, "rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}
    draft = changed("speculators-eagle3", {f"{NESTED}.rope_parameters": new})
    told = told_of(draft, tmp_path, "ROP001")
    assert settings(told) == {
        f"{NESTED}.rope_theta": 10000,
        f"{NESTED}.rope_scaling": {k: v for k, v in new.items() if k != "rope_theta"},
    }


def test_a_part_of_a_head_that_is_rotated_is_written_too(tmp_path: Path) -> None:
    new = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}
    draft = changed(config={"rope_parameters": new})
    assert settings(told_of(draft, tmp_path, "ROP001")) == {"partial_rotary_factor": 0.5}


def test_the_repair_of_a_note_is_made_when_it_is_selected(tmp_path: Path) -> None:
    folder = write(changed(config={"rope_theta": ..., "rope_parameters.rope_theta": 5e5}), tmp_path)
    assert plan(folder).steps == ()
    done = plan(folder, select=("ROP001",))
    assert [s.treatment for s in done.steps] == ["rope-both-spellings"]
    assert not [f for f in done.after.judgement.findings if f.rule == "ROP001"]


@pytest.mark.parametrize(
    ("config", "rule", "words"),
    [
        ({"rope_theta": 5e5}, "ROP003", "rope_theta is 500000.0 and rope_parameters says 10000.0"),
        (
            {"rope_theta": ..., "rope_parameters": {"rope_theta": 5e5, "alpha": 1000.0}},
            "ROP001",
            "no known place in the old spelling",
        ),
        (
            {
                "rope_theta": ...,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
                "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 8.0},
            },
            "ROP001",
            "different scalings",
        ),
    ],
)
def test_spellings_that_differ_stay(config: dict[str, Any], rule: str, words: str, tmp_path: Path) -> None:
    assert words in str(told_of(changed(config=config), tmp_path, rule))


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": ...},  # the base of the new spelling is what engines take anyway
        {"rope_theta": ..., "rope_parameters": ...},
        {"rope_parameters": ...},  # the old spelling alone is read by all
        {"rope_theta": ..., "rope_parameters": {"full_attention": {"rope_theta": 5e5}}},
    ],
)
def test_a_base_that_every_engine_reads_is_not_reported(config: dict[str, Any], tmp_path: Path) -> None:
    folder = write(changed(config=config), tmp_path)
    assert not [f for f in plan(folder).before.judgement.findings if f.rule.startswith("ROP")]
