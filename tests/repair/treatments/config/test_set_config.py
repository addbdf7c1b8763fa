"""Values that something else than the config proves are written into it, and what must not be touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treating.configs import case_of, changed, is_safe, told_of
from treatment_cases import Draft, draft_of, floats, settings, write

from ckptdoctor.repair.plan.case import Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of, treatments

LONG = {"max_position_embeddings": 4096}
NESTED = "transformer_layer_config"


def wider(**more: Any) -> Draft:
    draft = changed(target_hidden=128, **more)
    assert draft.config is not None
    del draft.config["target_hidden_size"]
    return draft


def test_the_targets_width_is_written(tmp_path: Path) -> None:
    told = told_of(wider(embedding=True), tmp_path, "GEO004")
    assert settings(told) == {"target_hidden_size": 128}
    assert is_safe(told)


def test_the_targets_width_is_not_written_for_a_draft_without_an_embedding(tmp_path: Path) -> None:
    assert "embedding, and none is stored" in str(told_of(wider(), tmp_path, "GEO004"))


def test_bias_is_set_to_false_on_the_assumption_that_there_was_none(tmp_path: Path) -> None:
    told = told_of(changed(config={"bias": True}), tmp_path, "GEO008")
    assert settings(told) == {"bias": False}
    assert isinstance(told, Proposal)
    assert (told.safety, told.assumption) == (
        "unsafe",
        "The draft was trained without a bias in fc and in the attention.",
    )


def test_bias_stays_true_beside_any_bias(tmp_path: Path) -> None:
    draft = changed(config={"bias": True})
    draft.tensors["midlayer.self_attn.o_proj.bias"] = floats(np.zeros(64), "BF16")
    assert "midlayer.self_attn.o_proj.bias is stored" in str(told_of(draft, tmp_path, "GEO008"))


@pytest.mark.parametrize(
    ("sizes", "flag"), [({"norm_before_fc": True}, "norm_before_fc"), ({"fc_norm": True}, "fc_norm")]
)
def test_the_flag_of_a_stored_norm_is_set_as_unsafe(sizes: dict[str, Any], flag: str, tmp_path: Path) -> None:
    told = told_of(changed("speculators-eagle3", {flag: ...}, **sizes), tmp_path, "GEO014")
    assert settings(told) == {flag: True}
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"


def test_a_flag_is_corrected_where_it_stands(tmp_path: Path) -> None:
    draft = changed(
        "speculators-eagle3", {"norm_before_fc": ..., "eagle_config.norm_before_fc": False}, norm_before_fc=True
    )
    assert settings(told_of(draft, tmp_path, "GEO014")) == {"eagle_config.norm_before_fc": True}


def test_the_flag_is_not_set_when_some_of_the_norms_are_lost(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {"fc_norm": ...}, fc_norm=True)
    del draft.tensors["fc_norm.2.weight"]
    assert "fewer fc_norm tensors" in str(told_of(draft, tmp_path, "GEO014"))


def test_the_number_of_captured_layers_is_that_of_the_list(tmp_path: Path) -> None:
    draft = changed("model-optimizer-eagle3", {"num_aux_hidden_states": 4})
    told = told_of(draft, tmp_path, "AUX011")
    assert settings(told) == {"num_aux_hidden_states": 3}
    assert is_safe(told)


@pytest.mark.parametrize(
    ("ids", "words"), [([1, 3], "not proved to be right"), ([1, 3, 3], "names some of them twice")]
)
def test_the_number_of_captured_layers_stays_when_the_list_may_be_wrong(
    ids: list[int], words: str, tmp_path: Path
) -> None:
    where = "eagle_config.eagle_aux_hidden_state_layer_ids"
    draft = changed("model-optimizer-eagle3", {where: ids, "num_aux_hidden_states": 4})
    assert words in str(told_of(draft, tmp_path, "AUX011"))


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ("specforge-eagle3", "max_position_embeddings"),
        ("speculators-eagle3", f"{NESTED}.max_position_embeddings"),
        ("eagle-eagle3", "max_position_embeddings"),
    ],
)
def test_the_length_is_that_of_the_target_in_the_drafts_own_place(dialect: str, key: str, tmp_path: Path) -> None:
    draft = changed(dialect)
    draft.target = {**(draft.target or {}), **LONG}
    told = told_of(draft, tmp_path, "ROP002")
    assert settings(told) == {key: 4096}
    assert is_safe(told)


@pytest.mark.parametrize("kind", ["linear", "llama3"])
def test_a_scaling_that_does_not_depend_on_the_length_allows_a_longer_table(kind: str, tmp_path: Path) -> None:
    scaling = {"rope_type": kind, "factor": 2.0}
    draft = changed(config={"rope_scaling": scaling, "rope_parameters": {**scaling, "rope_theta": 10000.0}})
    draft.target = {**(draft.target or {}), **LONG}
    assert settings(told_of(draft, tmp_path, "ROP002")) == {"max_position_embeddings": 4096}


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope", "something-new"])
def test_the_length_of_scaled_positions_stays(kind: str, tmp_path: Path) -> None:
    scaling = {"rope_type": kind, "factor": 2.0, "original_max_position_embeddings": 128}
    draft = changed(config={"rope_scaling": scaling, "rope_parameters": {**scaling, "rope_theta": 10000.0}})
    draft.target = {**(draft.target or {}), **LONG}
    assert "computed from its length" in str(told_of(draft, tmp_path, "ROP002"))


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"field": "hidden_size", "value": 64}, "same"),
        ({"field": "hidden_size", "value": None}, "null"),
        ({"field": "hidden_size.deeper", "value": 1}, "blocked"),
        ({"field": "bias", "value": True, "refuse": "stored"}, "stored"),
    ],
)
def test_set_config_refuses(arguments: dict[str, Any], key: str, tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    with pytest.raises(RefusedError) as refused:
        code_of("set-config")(case_of(folder), **arguments)
    assert refused.value.key == key


@pytest.mark.parametrize(("text", "key"), [("{", "unreadable"), ('{"hidden_size": 1' + "0" * 30 + "}", "huge")])
@pytest.mark.parametrize(
    ("treatment", "arguments"),
    [
        ("set-config", {"field": "head_dim", "value": 8}),
        ("remove-config", {"keys": ["hidden_size"]}),
        ("plain-value", {"key": "hidden_size"}),
        ("ids-to-integers", {"key": "ids"}),
        ("rope-both-spellings", {}),
        ("vocabulary-sizes", {}),
        ("rewrite-json", {"file": "config.json"}),
    ],
)
def test_a_config_that_cannot_be_written_again_is_left_alone(
    treatment: str, arguments: dict[str, Any], text: str, key: str, tmp_path: Path
) -> None:
    folder = write(draft_of(), tmp_path)
    (folder / "config.json").write_text(text)
    with pytest.raises(RefusedError) as refused:
        code_of(treatment)(case_of(folder), **arguments)
    assert refused.value.key == key
    assert treatments()[treatment].refusals[key].format(**refused.value.values)
