"""Treatments for one named engine: layouts, ids and flags, each borne out by a plan with the edits made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from story_drafts import IDS_KEY, draft, target
from treatment_cases import answer, draft_of, floats, plan, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import read_target
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.edits import RenameTensor, SetConfig
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Case, Proposal, Propose, RefusedError
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.treatments.engines import flag_for_engine, ids_for_engine, layout_for_engine
from ckptdoctor.serving.provenance import provenance_of
from ckptdoctor.serving.words import Reason

DEEP = ("DeepseekV3ForCausalLM", 61, "deepseek_v3")
LLAMA = ("LlamaForCausalLM", 61, "llama")
NESTED = f"eagle_config.{IDS_KEY}"


def story(
    folder: Path, ids: Sequence[int] | None, of: tuple[str, int, str] = DEEP, nested: dict[str, Any] | None = None
) -> Path:
    """The draft of the founding story with its target beside it."""
    place = draft(folder / "draft", ids, nested=nested)
    target(place / "target", *of)
    return place


def repaired(folder: Path, *engines: str, writer: str | None = None) -> RepairPlan:
    options = Options(engines=tuple(chosen_engines(engines)), provenance=provenance_of(writer))
    return plan_repair(open_checkpoint(str(folder)), read_target(str(folder / "target")), rulebook(), options)


def names(told: Proposal | str) -> dict[str, str]:
    assert isinstance(told, Proposal), told
    return {edit.name: edit.to for edit in told.edits if isinstance(edit, RenameTensor)}


def values(told: Proposal | str) -> dict[str, object]:
    assert isinstance(told, Proposal), told
    return {edit.key: edit.value for edit in told.edits if isinstance(edit, SetConfig)}


def rules(survey: Any) -> set[str]:
    return {f.rule for f in survey.judgement.findings}


def refusal(told: Proposal | str) -> str:
    assert isinstance(told, str), told
    return told


# --- the founding story -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11"])
def test_the_draft_of_the_founding_story_is_served_after_two_repairs(release: str, tmp_path: Path) -> None:
    found = repaired(story(tmp_path, [2, 30, 58]), f"sglang=={release}", writer="speculators")
    assert [p.outcome for p in found.before.plans] == ["broken"]
    assert {s.treatment: s.safety for s in found.steps} == {"ids-for-engine": "safe", "layout-for-engine": "safe"}
    assert [p.outcome for p in found.after.plans] == ["served"]
    assert not found.appeared
    assert not found.ineffective
    assert set(found.after.plans[0].captured.values()) == {(2, 30, 58)}
    assert found.after.plans[0].uninitialised == ()


def test_a_release_that_serves_the_story_needs_nothing(tmp_path: Path) -> None:
    assert repaired(story(tmp_path, [2, 30, 58]), "sglang==0.5.23").steps == ()


# --- layout-for-engine --------------------------------------------------------------------------------------------


def test_the_layer_gets_the_name_that_the_release_looks_for_and_nothing_else_does(tmp_path: Path) -> None:
    folder = write(draft_of("model-optimizer-eagle3"), tmp_path)
    told = answer(folder, "KEY017", "sglang==0.5.11")
    found = names(told)
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
    assert all(new == old.replace("midlayer.", "layers.") for old, new in names(told).items())
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
    assert names(answer(folder, "SRV006", engine)) == {f"{new}weight": f"{old}weight" for old, new in words.items()}
    assert not found.after.plans[0].load_errors
    assert found.after.plans[0].left_at_ones == ()


def test_a_prefix_that_vllm_doubles_is_taken_off(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {f"model.{n}" if n.startswith(("midlayer", "fc")) else n: t for n, t in draft.tensors.items()}
    told = names(answer(write(draft, tmp_path), "SRV006", "vllm==0.33.0"))
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
        new == old.replace("midlayer.", "layers.0.") for old, new in names(answer(folder, "SRV006", "mlx-vlm")).items()
    )


# --- ids-for-engine -----------------------------------------------------------------------------------------------


def test_ids_are_written_in_the_numbers_of_the_release(tmp_path: Path) -> None:
    told = answer(story(tmp_path, [2, 30, 58]), "AUX016", "sglang==0.5.12", trained_with="speculators")
    assert values(told) == {NESTED: [1, 29, 57]}
    assert isinstance(told, Proposal)
    assert (told.safety, told.subject) == ("safe", "the captured layers")
    assert "sglang 0.5.12" in told.summary


def test_every_place_that_names_the_layers_gets_the_same_ids(tmp_path: Path) -> None:
    place = story(tmp_path, [2, 30, 58])
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    (place / "config.json").write_text(json.dumps(config | {IDS_KEY: [2, 30, 58]}), encoding="utf-8")
    assert values(answer(place, "AUX016", "sglang==0.5.12", trained_with="speculators")) == {
        NESTED: [1, 29, 57],
        IDS_KEY: [1, 29, 57],
    }


def test_a_boundary_that_the_target_cannot_give_under_one_number_is_asked_for_by_another(tmp_path: Path) -> None:
    place = story(tmp_path, [-1, 2, 30])
    assert values(answer(place, "SRV004", "sglang==0.5.14")) == {NESTED: [0, 3, 31]}
    assert [p.outcome for p in repaired(place, "sglang==0.5.14").after.plans] == ["served"]


def test_two_releases_that_read_one_set_of_ids_alike_are_served_together(tmp_path: Path) -> None:
    # The first id is 1, and by that sign alone later releases add one again.
    found = repaired(story(tmp_path, [2, 30, 58]), "sglang==0.5.12", "sglang==0.5.13", writer="speculators")
    assert [p.outcome for p in found.after.plans] == ["served", "served"]


def test_two_engines_that_count_in_two_ways_get_no_ids(tmp_path: Path) -> None:
    place = draft(tmp_path / "draft", [2, 30, 58], **{IDS_KEY: [2, 30, 58]})
    target(place / "target", *LLAMA)
    told = refusal(answer(place, "AUX016", "sglang==0.5.9", "vllm==0.33.0", trained_with="speculators"))
    assert "What sglang 0.5.9 needs is wrong for vllm 0.33.0" in told


def test_ids_with_two_readings_are_not_translated(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3")
    assert draft.config is not None
    draft.config["eagle_config"][IDS_KEY] = [1, 2, 6]
    told = refusal(answer(write(draft, tmp_path), "AUX014", "vllm==0.22.0"))
    assert "Two readings of the ids are possible" in told
    assert "--trained-with" in told


@pytest.mark.parametrize("of", [DEEP, LLAMA])
@pytest.mark.parametrize("ids", [[2, 30, 58], [1, 29, 57], [3, 7, 11]])
@pytest.mark.parametrize(
    "engine", ["sglang==0.5.9", "sglang==0.5.12", "sglang==0.5.23", "vllm==0.22.0", "vllm==0.10.2"]
)
def test_ids_that_prove_nothing_are_never_rewritten(
    ids: list[int], engine: str, of: tuple[str, int, str], tmp_path: Path
) -> None:
    found = repaired(story(tmp_path, ids, of), engine)
    assert "ids-for-engine" not in [step.treatment for step in found.steps]
    findings = [f for f in found.before.judgement.findings if f.rule in ("AUX013", "AUX014", "AUX016")]
    assert {(f.rule, f.severity.value) for f in findings} <= {("AUX014", "warning")}


def test_the_person_who_knows_the_release_that_captured_gets_the_translation(tmp_path: Path) -> None:
    options = Options(
        engines=tuple(chosen_engines(["sglang==0.5.12"])), provenance=provenance_of(None, "sglang==0.5.14")
    )
    place = story(tmp_path, [2, 30, 58])
    found = plan_repair(open_checkpoint(str(place)), read_target(str(place / "target")), rulebook(), options)
    assert [(s.treatment, s.safety) for s in found.steps] == [("ids-for-engine", "safe")]
    assert set(found.after.plans[0].captured.values()) == {(2, 30, 58)}


def test_the_person_who_knows_the_trainer_gets_the_translation(tmp_path: Path) -> None:
    place = story(tmp_path, [5, 20, 40], LLAMA)
    assert repaired(place, "vllm==0.33.0").steps == ()
    found = repaired(place, "vllm==0.33.0", writer="model-optimizer")
    assert [s.treatment for s in found.steps] == ["ids-for-engine"]
    assert set(found.after.plans[0].captured.values()) >= {(6, 21, 41)}
    assert "AUX016" not in rules(found.after)
    assert not found.ineffective


def test_ids_that_a_reader_of_the_copy_would_take_for_others_are_not_written(tmp_path: Path) -> None:
    # 2, 30, 58 would be the default boundaries, and nobody could see that layers are meant.
    found = repaired(story(tmp_path, [3, 31, 59]), "sglang==0.5.12", writer="speculators")
    assert found.steps == ()
    assert any("would mean other layers" in u.why for u in found.unfixed if u.finding.rule == "AUX016")


def test_a_target_that_passes_no_states_on_is_not_cured_by_ids(tmp_path: Path) -> None:
    place = draft(tmp_path / "draft", [2, 30, 58])
    target(place / "target", "KimiK25ForConditionalGeneration", 61, "deepseek_v3", wrapped_as="kimi_k25")
    told = refusal(answer(place, "SRV004", "sglang==0.5.9", trained_with="speculators"))
    assert "No ids make sglang 0.5.9 capture" in told


def test_a_second_translation_is_refused(tmp_path: Path) -> None:
    place = story(tmp_path, [2, 30, 58])
    row = {"treatment": "ids-for-engine", "subject": "the captured layers"}
    (place / RECEIPT_NAME).write_text(json.dumps({"treatments": [row]}), encoding="utf-8")
    told = refusal(answer(place, "AUX016", "sglang==0.5.12", trained_with="speculators"))
    assert "was already made" in told


# --- flag-for-engine ----------------------------------------------------------------------------------------------


def test_a_flag_is_written_where_the_release_looks_for_it(tmp_path: Path) -> None:
    place = story(tmp_path, [2, 30, 58], LLAMA, {"norm_before_residual": True})
    told = answer(place, "SRV002", "vllm==0.33.0")
    assert values(told) == {"norm_before_residual": True}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    found = repaired(place, "vllm==0.33.0")
    assert [p.outcome for p in found.before.plans] == ["degraded"]
    assert [p.outcome for p in found.after.plans] == ["served"]


def test_a_flag_that_a_release_does_not_know_cannot_be_set_anywhere(tmp_path: Path) -> None:
    told = refusal(answer(write(draft_of("specforge-eagle31"), tmp_path), "SRV002", "sglang==0.5.11"))
    assert "No field of config.json changes this in sglang==0.5.11" in told


def test_a_flag_that_no_place_takes_without_a_loss_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = story(tmp_path, [2, 30, 58], LLAMA, {"norm_before_residual": True})
    monkeypatch.setattr(flag_for_engine, "_places", lambda *_: ["somewhere.norm_before_residual"])
    assert "does not take norm_before_residual at any place" in refusal(answer(place, "SRV002", "vllm==0.33.0"))


# --- without what they need ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("propose", [layout_for_engine.propose, ids_for_engine.propose])
def test_without_a_named_engine_nothing_is_done(propose: Propose, tmp_path: Path) -> None:
    before = plan(write(draft_of(), tmp_path)).before
    with pytest.raises(RefusedError, match="unnamed"):
        propose(Case(before.checkpoint, before.facts))


def test_a_stop_that_ids_do_not_cause_is_not_cured_by_ids(tmp_path: Path) -> None:
    draft = draft_of("specforge-eagle3")
    del draft.tensors["d2t"]
    told = refusal(answer(write(draft, tmp_path), "SRV004", "sglang==0.4.8"))
    assert "The numbers of the captured layers are not what stops sglang 0.4.8" in told


def test_two_places_of_a_block_drafter_are_not_set_to_one_number(tmp_path: Path) -> None:
    draft = draft_of("specforge-dflash")
    assert draft.config is not None
    draft.config["aux_hidden_state_layer_ids"] = [2, 4, 6]
    before = plan(write(draft, tmp_path), "sglang==0.5.23").before
    (now,) = before.plans
    asked = replace(now, trained=(2, 4, 6), fitting=(1, 3, 5), causes=(Reason("broken", "other_layers"),))
    engines = tuple((c, r) for c, r, _ in chosen_engines(["sglang==0.5.23"]))
    case = Case(before.checkpoint, before.facts, engines, (asked,), finding_engines=("sglang==0.5.23",))
    with pytest.raises(RefusedError, match="several"):
        ids_for_engine.propose(case)
