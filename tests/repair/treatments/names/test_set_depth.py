"""The depth becomes the number of stored layers, unless some may be lost."""

from __future__ import annotations

from pathlib import Path

from treating.names import config, renamed
from treatment_cases import answer, draft_of, plan, refusal, settings, write

from ckptdoctor.repair.plan.case import Proposal


def test_a_layer_without_a_number_is_the_only_one(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["num_hidden_layers"] = 8
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY027")
    assert settings(told) == {"num_hidden_layers": 1}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert [s.treatment for s in plan(folder, "sglang==0.5.9").steps] == ["set-depth"]
    assert [p.outcome for p in plan(folder, "sglang==0.5.9").after.plans] == ["served"]


def test_a_layer_with_a_number_may_be_one_of_several(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3")
    config(draft)["num_hidden_layers"] = 4
    assert "may have lost the others" in refusal(answer(write(draft, tmp_path / "lost"), "KEY027"))
    config(draft)["num_hidden_layers"] = 8  # as many as the target has
    told = answer(write(draft, tmp_path / "copied"), "KEY027")
    assert isinstance(told, Proposal)
    assert (told.safety, settings(told)) == ("unsafe", {"num_hidden_layers": 1})
    assert told.assumption is not None
    assert "No layer was lost" in told.assumption


def test_more_stored_layers_are_an_assumption_and_stand_where_the_depth_was_read(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    inner = config(draft)["transformer_layer_config"]
    assert isinstance(inner, dict)
    inner["num_hidden_layers"] = 1
    told = answer(write(draft, tmp_path), "KEY015")
    assert settings(told) == {"transformer_layer_config.num_hidden_layers": 2}
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"


def test_layer_types_become_as_long_as_the_depth(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft).update(num_hidden_layers=3, layer_types=["full_attention"] * 3)
    folder = write(draft, tmp_path)
    assert settings(answer(folder, "KEY027")) == {"num_hidden_layers": 1, "layer_types": ["full_attention"]}
    config(draft)["layer_types"] = ["sliding_attention", "full_attention", "full_attention"]
    assert "several kinds of layers" in refusal(answer(write(draft, tmp_path), "KEY027"))


def test_a_gap_between_the_stored_layers_is_no_depth(tmp_path: Path) -> None:
    draft = renamed(draft_of("speculators-eagle3", layers=3), "layers.1.", "!")
    draft.tensors = {n: t for n, t in draft.tensors.items() if not n.startswith("!")}
    inner = config(draft)["transformer_layer_config"]
    assert isinstance(inner, dict)
    inner["num_hidden_layers"] = 1
    assert "layers.1 is missing although" in refusal(answer(write(draft, tmp_path), "KEY015"))
