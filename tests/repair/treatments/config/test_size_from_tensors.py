"""Sizes in the config become those of all tensors, or stay where more than one thing could be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treating.configs import changed, is_safe, told_of
from treatment_cases import floats, plan, settings

NESTED = "transformer_layer_config"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"intermediate_size": 256}, {"intermediate_size": 128}),
        ({"hidden_size": 32, "head_dim": 16}, {"hidden_size": 64}),
    ],
)
def test_a_size_is_the_one_of_all_tensors(config: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    told = told_of(changed(config=config), tmp_path, "GEO009")
    assert settings(told) == expected
    assert is_safe(told)


def test_the_vocabulary_is_the_rows_of_the_embedding(tmp_path: Path) -> None:
    told = told_of(changed(config={"vocab_size": 640}, embedding=True), tmp_path, "GEO009")
    assert settings(told) == {"vocab_size": 512}


@pytest.mark.parametrize("dialect", ["specforge-eagle3", "speculators-eagle3"])
@pytest.mark.parametrize(
    ("dropped", "proof"),
    [((), "d2t reaches to id"), (("d2t",), "t2d has 512 entries"), (("d2t", "t2d"), "the target has 512 tokens")],
)
def test_the_vocabulary_stays_where_anything_proves_that_the_embedding_was_cut(
    dialect: str, dropped: tuple[str, ...], proof: str, tmp_path: Path
) -> None:
    draft = changed(dialect, embedding=True)
    draft.tensors["embed_tokens.weight"] = floats(np.ones((128, 64)), "BF16")
    for name in dropped:
        del draft.tensors[name]
    told = told_of(draft, tmp_path, "GEO009")
    assert isinstance(told, str)
    assert proof in told
    assert "it is the tensor that is wrong" in told


@pytest.mark.parametrize(
    ("dialect", "key"), [("specforge-eagle3", "head_dim"), ("speculators-eagle3", f"{NESTED}.head_dim")]
)
def test_a_missing_head_dim_is_what_queries_and_keys_agree_on(dialect: str, key: str, tmp_path: Path) -> None:
    told = told_of(changed(dialect, {key: ...}, head_dim=32), tmp_path, "GEO009")
    assert settings(told) == {key: 32}
    assert is_safe(told)


def test_a_wrong_head_dim_is_corrected_where_the_norms_of_the_heads_show_it(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {f"{NESTED}.head_dim": 8}, qk_norm=True)
    assert settings(told_of(draft, tmp_path, "GEO009"))[f"{NESTED}.head_dim"] == 16
    steps = plan(tmp_path).steps
    assert [(s.treatment, s.subject) for s in steps] == [("size-from-tensors", "head_dim")]


def test_heads_are_corrected_where_the_norms_of_the_heads_show_their_width(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {f"{NESTED}.num_attention_heads": 8}, qk_norm=True)
    assert settings(told_of(draft, tmp_path, "GEO009")) == {f"{NESTED}.num_attention_heads": 4}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"head_dim": 8}, "could both be wrong"),
        ({"num_attention_heads": 8}, "could both be wrong"),
        ({"num_key_value_heads": 4}, "could both be wrong"),
        ({"num_key_value_heads": 4, "head_dim": ...}, "right by chance"),
        ({"num_attention_heads": 3, "head_dim": ...}, "does not divide"),
        ({"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": ...}, "not every tensor would fit"),
    ],
)
def test_heads_and_their_width_stay_when_both_could_be_wrong(
    config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    # Heads of another width than the target's, which would settle it.
    wide = config.get("num_attention_heads") == 8 or config.get("head_dim") == 8
    draft = changed(config=config, head_dim=32) if wide else changed(config=config)
    assert words in str(told_of(draft, tmp_path, "GEO009"))


def test_a_size_stays_when_a_tensor_would_not_fit_it(tmp_path: Path) -> None:
    draft = changed(config={"intermediate_size": 256})
    draft.tensors["midlayer.mlp.down_proj.weight"] = floats(np.zeros((64, 96)), "BF16")
    assert "not every tensor would fit" in str(told_of(draft, tmp_path, "GEO009"))
