"""The two sizes of a vocabulary are put into the right fields, or stay where the sources disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treating.configs import changed, is_safe, told_of
from treatment_cases import floats, settings

NESTED = "transformer_layer_config"


@pytest.mark.parametrize(
    ("config", "rule", "expected"),
    [
        ({"draft_vocab_size": 120}, "VOC013", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": ...}, "VOC014", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": None}, "VOC014", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": 640}, "VOC015", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": 512, "vocab_size": 128}, "VOC013", {"draft_vocab_size": 128, "vocab_size": 512}),
        ({"draft_vocab_size": ..., "vocab_size": 128}, "VOC014", {"draft_vocab_size": 128, "vocab_size": 512}),
        ({"vocab_size": 128}, "VOC017", {"vocab_size": 512}),
    ],
)
def test_the_sizes_are_put_into_the_right_fields(
    config: dict[str, Any], rule: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    told = told_of(changed(config=config), tmp_path, rule)
    assert settings(told) == expected
    assert is_safe(told)


def test_the_sizes_stay_in_their_dialect(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {"draft_vocab_size": 512, f"{NESTED}.vocab_size": 128})
    assert settings(told_of(draft, tmp_path, "VOC013")) == {"draft_vocab_size": 128, f"{NESTED}.vocab_size": 512}


def test_a_whole_vocabulary_needs_no_map(tmp_path: Path) -> None:
    draft = changed("specforge-eagle3-fullvocab", {"draft_vocab_size": 128})
    draft.tensors = {name: t for name, t in draft.tensors.items() if name not in ("d2t", "t2d")}
    assert settings(told_of(draft, tmp_path, "VOC013")) == {"draft_vocab_size": 512}


def test_lengths_of_head_and_map_that_differ_are_left_to_the_training_run(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 120})
    draft.tensors["lm_head.weight"] = floats(np.zeros((136, 64)), "BF16")
    assert "which length is right only the training run says" in str(told_of(draft, tmp_path, "VOC013"))


def test_sizes_without_a_head_or_a_map_stay(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 120})
    head = draft.tensors.pop("lm_head.weight")
    assert "No head is stored" in str(told_of(draft, tmp_path / "a", "VOC013"))
    draft.tensors["lm_head.weight"] = head
    del draft.tensors["d2t"]
    assert "there is no d2t" in str(told_of(draft, tmp_path / "b", "VOC013"))


def test_sizes_stay_when_the_sources_disagree_or_there_is_none(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 512, "vocab_size": 128})
    draft.target = {**(draft.target or {}), "vocab_size": 576}
    assert "cannot be told" in str(told_of(draft, tmp_path / "a", "VOC013"))
    draft = changed("model-optimizer-eagle3", {"draft_vocab_size": 512, "vocab_size": 128})
    draft.target = {k: v for k, v in (draft.target or {}).items() if k != "vocab_size"}
    draft.tensors = {name: t for name, t in draft.tensors.items() if "embed_tokens" not in name}
    assert "--target" in str(told_of(draft, tmp_path / "b", "VOC013"))


def test_a_draft_for_another_target_is_not_made_one_for_this(tmp_path: Path) -> None:
    draft = changed()
    draft.target = {**(draft.target or {}), "vocab_size": 9000}
    assert "no edit makes it so" in str(told_of(draft, tmp_path, "VOC017"))
