"""Ids of captured layers in the numbers of one named engine, each borne out by a plan with the edits made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from story_drafts import IDS_KEY, draft, target
from treating.engines import DEEP, repaired, rules, story
from treatment_cases import answer, draft_of, plan, refusal, settings, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import read_target
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.planner import Options, plan_repair
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.treatments.engines import ids_for_engine
from ckptdoctor.serving.layers.provenance import provenance_of
from ckptdoctor.serving.words import Reason

LLAMA = ("LlamaForCausalLM", 61, "llama")
NESTED = f"eagle_config.{IDS_KEY}"


# --- ids-for-engine ---------------------------------------------------------------------------------------------------


def test_ids_are_written_in_the_numbers_of_the_release(tmp_path: Path) -> None:
    told = answer(story(tmp_path, [2, 30, 58]), "AUX016", "sglang==0.5.12", trained_with="speculators")
    assert settings(told) == {NESTED: [1, 29, 57]}
    assert isinstance(told, Proposal)
    assert (told.safety, told.subject) == ("safe", "the captured layers")
    assert "sglang 0.5.12" in told.summary


def test_every_place_that_names_the_layers_gets_the_same_ids(tmp_path: Path) -> None:
    place = story(tmp_path, [2, 30, 58])
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    (place / "config.json").write_text(json.dumps(config | {IDS_KEY: [2, 30, 58]}), encoding="utf-8")
    assert settings(answer(place, "AUX016", "sglang==0.5.12", trained_with="speculators")) == {
        NESTED: [1, 29, 57],
        IDS_KEY: [1, 29, 57],
    }


def test_a_boundary_that_the_target_cannot_give_under_one_number_is_asked_for_by_another(tmp_path: Path) -> None:
    place = story(tmp_path, [-1, 2, 30])
    assert settings(answer(place, "SRV004", "sglang==0.5.14")) == {NESTED: [0, 3, 31]}
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


# --- without what they need -------------------------------------------------------------------------------------------


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
