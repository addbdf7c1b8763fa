"""Layouts of names for one named engine, each borne out by a plan with the edits made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.engines import rules
from treatment_cases import answer, draft_of, floats, plan, refusal, renames, write

from ckptdoctor.repair.plan.case import Proposal


def test_the_layer_gets_the_name_that_the_release_looks_for_and_nothing_else_does(tmp_path: Path) -> None:
    folder = write(draft_of("model-optimizer-eagle3"), tmp_path)
    told = answer(folder, "KEY017", "sglang==0.5.11")
    found = renames(told)
    assert found
    assert all(new == old.replace("layers.0.", "midlayer.") for old, new in found.items())
    assert set(found) == {n for n in draft_of("model-optimizer-eagle3").tensors if n.startswith("layers.0.")}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    after = plan(folder, "sglang==0.5.11").after
    assert "KEY017" not in rules(after)
    assert [p.outcome for p in after.plans] == ["served"]


def test_one_layout_serves_two_engines(tmp_path: Path) -> None:
    folder = write(draft_of("model-optimizer-eagle3"), tmp_path)
    found = plan(folder, "sglang==0.5.11", "sglang==0.5.23", "vllm==0.33.0")
    assert [s.treatment for s in found.steps] == ["layout-for-engine"]
    assert [p.left_random for p in found.after.plans] == [(), (), ()]


def test_numbers_after_midlayer_are_taken_off_for_a_deep_draft(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3", layers=2)
    draft.tensors = {n.replace("layers.", "midlayer."): t for n, t in draft.tensors.items()}
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY017", "sglang==0.5.23")
    assert all(new == old.replace("midlayer.", "layers.") for old, new in renames(told).items())
    assert plan(folder, "sglang==0.5.23").after.plans[0].left_random == ()


@pytest.mark.parametrize("engine", ["vllm==0.33.0", "sglang==0.5.23"])
def test_norms_of_the_captured_states_have_two_names(engine: str, tmp_path: Path) -> None:
    draft = draft_of("specforge-eagle31")
    words = {"fc_norm.0.": "aux_norm_low.", "fc_norm.1.": "aux_norm_mid.", "fc_norm.2.": "aux_norm_high."}
    for old, new in words.items():
        draft.tensors = {n.replace(old, new): t for n, t in draft.tensors.items()}
    folder = write(draft, tmp_path)
    found = plan(folder, engine)
    if engine.startswith("sglang"):  # it knows both
        assert "layout-for-engine" not in [s.treatment for s in found.steps]
        return
    assert renames(answer(folder, "SRV006", engine)) == {f"{new}weight": f"{old}weight" for old, new in words.items()}
    assert not found.after.plans[0].load_errors
    assert found.after.plans[0].left_at_ones == ()


def test_a_prefix_that_vllm_doubles_is_taken_off(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {f"model.{n}" if n.startswith(("midlayer", "fc")) else n: t for n, t in draft.tensors.items()}
    told = renames(answer(write(draft, tmp_path), "SRV006", "vllm==0.33.0"))
    assert all(old == f"model.{new}" for old, new in told.items())


def test_what_is_not_in_the_file_cannot_be_named(tmp_path: Path) -> None:
    draft = draft_of()
    del draft.tensors["midlayer.self_attn.o_proj.weight"]
    told = refusal(answer(write(draft, tmp_path), "KEY017", "sglang==0.5.23"))
    assert "what is missing is not in the file" in told


def test_a_name_that_no_layout_has_is_told(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["midlayer.self_attn.q_norm.weight"] = floats(np.ones(16))
    draft.tensors["midlayer.self_attn.k_norm.weight"] = floats(np.ones(16))
    told = refusal(answer(write(draft, tmp_path), "SRV006", "vllm==0.33.0"))
    assert told.startswith("Renaming for vllm 0.33.0 alone does not make it load them.")


def test_the_names_of_an_ordinary_model_are_not_taken_on(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle1")
    assert draft.config is not None
    draft.config["architectures"] = ["LlamaForCausalLM"]
    told = answer(write(draft, tmp_path), "SRV007", "sglang==0.5.23")
    assert isinstance(told, Proposal)
    assert told.treatment == "set-architecture"


def test_two_layouts_in_one_file_are_not_folded_into_one(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3")
    draft.tensors["midlayer.hidden_norm.weight"] = draft.tensors["layers.0.hidden_norm.weight"]
    told = answer(write(draft, tmp_path), "KEY017", "sglang==0.5.11")
    assert isinstance(told, str)


def test_two_engines_that_want_two_layouts_are_told_so(tmp_path: Path) -> None:
    # The EAGLE reference looks for midlayer.*, MLX for layers.0.*; it reads its sizes from the inner object alone.
    draft = draft_of()
    assert draft.config is not None
    draft.config["transformer_layer_config"] = dict(draft.config)
    folder = write(draft, tmp_path)
    told = refusal(answer(folder, "SRV006", "mlx-vlm", "eagle"))
    assert "The named engines want different names" in told
    assert "eagle undated: the names as they are" in told
    assert "layers.N.*" in told
    assert all(
        new == old.replace("midlayer.", "layers.0.")
        for old, new in renames(answer(folder, "SRV006", "mlx-vlm")).items()
    )
