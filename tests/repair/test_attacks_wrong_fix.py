"""Drafts that led `fix` astray: a map that was right, a mask of the wrong length, a fault that hid another, pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import build
from builder.building import build_draft
from builder.container import encode
from builder.recipes import Recipe
from builder.values import bools, integers, random_tensor
from recipe_cases import RECIPES, need_torch
from repair_drafts import plan_of, tensor_bytes

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.plan.planner import RepairPlan


def changed(base: str, tmp_path: Path, *changes: tuple[str, Any]) -> Path:
    recipe = RECIPES[base]
    folder = tmp_path / "draft"
    build(Recipe(**{**recipe.__dict__, "id": "attack", "changes": tuple(changes)}), folder)
    return folder


def with_map(tmp_path: Path, d2t: Any, t2d: Any = None) -> Path:
    """A draft of SpecForge with this very map."""
    draft = build_draft(RECIPES["specforge-eagle3"])
    draft.tensors["d2t"] = integers(np.asarray(d2t))
    draft.tensors["lm_head.weight"] = random_tensor("lm_head.weight", (len(d2t), 64))
    del draft.tensors["t2d"]
    if t2d is not None:
        draft.tensors["t2d"] = bools(t2d)
    assert draft.config is not None
    draft.config["draft_vocab_size"] = len(d2t)
    folder = tmp_path / "draft"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(encode(draft.tensors, draft.metadata))
    (folder / "config.json").write_text(json.dumps(draft.config), encoding="utf-8")
    return folder


def steps(plan: RepairPlan) -> list[str]:
    return [step.treatment for step in plan.steps]


def ascending(count: int, below: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    chosen = np.random.default_rng(0).permutation(np.arange(below, dtype=np.int64))[:count]
    return np.sort(chosen)


@pytest.mark.parametrize("padded", [4, 28, 60])
def test_a_right_map_that_was_filled_up_is_not_taken_for_one_offset_twice(padded: int, tmp_path: Path) -> None:
    """Its ids repeat at the end alone, and are all different and inside when the row number is added once more."""
    targets = ascending(128 - padded, 300)
    targets = np.concatenate([targets, np.full(padded, targets[-1])])
    plan = plan_of(with_map(tmp_path, targets - np.arange(128)))
    assert 2 in plan.before.facts.vocab.readings
    assert steps(plan) == []
    assert {"VOC003", "VOC005"} & {f.rule for f in plan.before.judgement.findings}


@pytest.mark.parametrize("kind", ["scattered", "half_first", "first"])
def test_a_map_offset_twice_is_still_undone_without_a_mask(kind: str, tmp_path: Path) -> None:
    targets = {
        "scattered": ascending(128, 512),
        "half_first": np.concatenate([np.arange(64), 64 + ascending(64, 448)]),
        "first": np.arange(128),
    }[kind]
    folder = with_map(tmp_path, targets - 2 * np.arange(128))
    outcome = fix(folder, tmp_path / "copy")
    assert steps(outcome.plan) == ["map-to-offsets"]
    stored = np.frombuffer(tensor_bytes(tmp_path / "copy" / "model.safetensors")["d2t"], "<i8")
    assert np.array_equal(stored + np.arange(128), targets)


@pytest.mark.parametrize("mask", [True, False])
def test_a_map_that_was_cast_to_flags_is_not_made_to_look_like_a_right_one(mask: bool, tmp_path: Path) -> None:
    """Offsets become 0 and 1, which as I64 are all different and inside, and so would scan clean."""
    changes: list[tuple[str, Any]] = [("dtype", {"pattern": "^d2t$", "to": "BOOL"})]
    folder = changed("specforge-eagle3", tmp_path, *changes, *([] if mask else [("drop", "^t2d$")]))
    plan = plan_of(folder)
    assert steps(plan) == []
    [item] = [u for u in plan.unfixed if u.finding.rule == "VOC016"]
    assert "the map is lost" in item.why


@pytest.mark.parametrize("target", [True, False])
def test_a_right_mask_is_not_made_as_long_as_a_wrong_vocab_size(target: bool, tmp_path: Path) -> None:
    """The embedding shows the size; t2d was written for the wrong one before that was corrected."""
    base = "speculators-eagle3"
    folder = changed(base, tmp_path, ("set_config", {"vocab_size": 600}))
    outcome = fix(folder, tmp_path / "copy", target=folder / "target" if target else None)
    assert steps(outcome.plan) == ["size-from-tensors"]
    assert tensor_bytes(tmp_path / "copy" / "model.safetensors") == tensor_bytes(folder / "model.safetensors")


def test_a_mask_as_long_as_the_targets_vocabulary_is_left_as_it_is(tmp_path: Path) -> None:
    plan = plan_of(changed("specforge-eagle3", tmp_path, ("set_config", {"vocab_size": 600})))
    assert steps(plan) == []
    for item in plan.unfixed:
        assert item.finding.rule != "VOC018" or "disagree" in item.why


def test_what_may_be_the_head_is_not_left_out_while_the_config_cannot_be_read(tmp_path: Path) -> None:
    folder = changed("specforge-domino", tmp_path, ("add", {"names": ["verifier_lm_head.weight"], "shape": [512, 64]}))
    (folder / "config.json").write_text("{", encoding="utf-8")
    plan = plan_of(folder, unsafe=False)
    assert steps(plan) == []
    [item] = [u for u in plan.unfixed if u.finding.rule == "KEY012"]
    assert "lm_head" in item.why


def test_a_step_that_brings_another_fault_to_light_does_not_stop_the_rest(tmp_path: Path) -> None:
    """Ids as a text hid that there are three of them where fc takes four: the whole repair was refused."""
    folder = changed(
        "four-aux-layers", tmp_path,
        ("set_config", {"eagle_config.eagle_aux_hidden_state_layer_ids": "1,3,4"}), ("map", "absolute"),
    )  # fmt: skip
    outcome = fix(folder, tmp_path / "copy", target=folder / "target")
    assert steps(outcome.plan) == ["map-to-offsets"]
    [item] = [u for u in outcome.plan.unfixed if u.finding.rule == "AUX004"]
    assert "GEO003" in item.why
    again = fix(tmp_path / "copy", tmp_path / "second", target=folder / "target")
    assert steps(again.plan) == []


def test_what_an_engine_could_not_show_before_is_no_new_error(tmp_path: Path) -> None:
    """A byte order mark stopped the engine; without it the lacking head shows, which a scan without engine said."""
    folder = changed("specforge-eagle3", tmp_path, ("drop", "lm_head"), ("config_text", {"before": "\ufeff"}))
    outcome = fix(folder, tmp_path / "copy", target=folder / "target", engines=["sglang==0.5.23"])
    assert steps(outcome.plan) == ["rewrite-json"]
    assert not (tmp_path / "copy" / "config.json").read_bytes().startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rope_type": "dynamic", "factor": 4.0}, {"rope_type": "default", "rope_theta": 10000.0}),
        ({"rope_type": "yarn", "factor": 4.0}, {"rope_type": "default", "rope_theta": 10000.0}),
        (None, {"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}}),
    ],
)
def test_the_length_is_not_raised_where_one_spelling_computes_with_it(old: Any, new: Any, tmp_path: Path) -> None:
    values = {"max_position_embeddings": 64, "rope_scaling": old, "rope_parameters": new}
    plan = plan_of(changed("specforge-eagle3", tmp_path, ("set_config", values)))
    assert "set-config" not in steps(plan)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("base", "change", "engines", "wanted"),
    [
        ("specforge-eagle3", ("map", "absolute"), [], "map-to-offsets"),
        ("specforge-eagle3", ("add", {"names": ["target_model.norm.weight"], "shape": [64]}), [], "drop-tensors"),
        ("biases-left-random", None, ["sglang==0.5.9"], "zero-biases"),
    ],
)
def test_pytorch_files_are_converted_before_their_tensors_change(
    base: str, change: Any, engines: list[str], wanted: str, tmp_path: Path
) -> None:
    """A PyTorch file is never written again, so the tensors stayed as they were and the copy was refused."""
    need_torch()
    pickle = ("pickle", {"name": "pytorch_model.bin"})
    folder = changed(base, tmp_path, *([change] if change else RECIPES[base].changes), pickle)
    outcome = fix(folder, tmp_path / "copy", target=folder / "target", engines=engines)
    names = steps(outcome.plan)
    assert names.index("convert-pickle") < names.index(wanted)
    assert open_checkpoint(str(tmp_path / "copy")).kind == "safetensors"
    again = fix(tmp_path / "copy", None, target=folder / "target", engines=engines, dry_run=True)
    assert steps(again.plan) == []
    alone = fix(folder, None, target=folder / "target", engines=engines, select=[wanted], dry_run=True).plan
    assert wanted not in steps(alone)
    assert any("convert-pickle" in item.why for item in alone.unfixed)
