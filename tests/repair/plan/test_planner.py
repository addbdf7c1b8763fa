"""How proposals become a plan: stages, conflicts, notes, selection, receipts, and two faults at once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import build
from builder.recipes import Recipe
from recipe_cases import RECIPES, Built
from repair_drafts import plan_of, tensor_bytes

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.repair.edits import (
    AddTensor,
    DropTensor,
    OmitFile,
    RemoveConfig,
    RenameTensor,
    ReplaceTensor,
    SetConfig,
    conflict,
)
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.planner import Options, plan_repair
from ckptdoctor.repair.plan.treatments_known import code_of, treatment_arguments, treatments
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.state import BrokenEditError, State
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import load_rules
from ckptdoctor.scanning import scan


def several(base: str, tmp_path: Path, *changes: tuple[str, Any]) -> Path:
    """A draft with several things wrong at once."""
    recipe = RECIPES[base]
    mixed = Recipe(**{**recipe.__dict__, "id": "mixed", "changes": tuple(changes)})
    build(mixed, tmp_path / "mixed")
    return tmp_path / "mixed"


REPLACE = ReplaceTensor("a", "I64", (1,), bytes(8))


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        (RenameTensor("a", "b"), RenameTensor("a", "c"), True),
        (RenameTensor("a", "b"), RenameTensor("a", "b"), False),
        (RenameTensor("a", "c"), RenameTensor("b", "c"), True),
        (RenameTensor("a", "b"), REPLACE, False),
        (RenameTensor("a", "b"), DropTensor("a"), True),
        (DropTensor("a"), REPLACE, True),
        (DropTensor("a"), DropTensor("b"), False),
        (RenameTensor("a", "c"), AddTensor("c", "I64", (1,)), True),
        (SetConfig("x", 1), SetConfig("x", 2), True),
        (SetConfig("x", 1), SetConfig("x", 1), False),
        (SetConfig("x", 1), SetConfig("x", True), True),
        (SetConfig("x.y", 1), RemoveConfig("x"), True),
        (SetConfig("x.y", 1), SetConfig("x.z", 1), False),
        (SetConfig("xy", 1), RemoveConfig("x"), False),
        (SetConfig("x", 1, "a.json"), SetConfig("x", 2, "b.json"), False),
        (OmitFile("a"), OmitFile("b"), False),
    ],
)
def test_edits_that_want_something_else_of_the_same_thing(first: Any, second: Any, clash: bool) -> None:
    assert (conflict(first, second) is not None) == clash
    assert (conflict(second, first) is not None) == clash


def test_every_treatment_has_code_and_every_rule_a_treatment_that_exists() -> None:
    for name in treatments():
        assert callable(code_of(name))
    load_rules(rules_dir(), names=RULE_NAMES).check(RULE_NAMES, treatment_arguments())


def test_every_unsafe_repair_says_what_it_assumes_and_no_safe_one_does() -> None:
    for rule in rulebook():
        if rule.fix is not None:
            assert (rule.fix.safety == "unsafe") == (rule.fix.assumption is not None), rule.id


def test_every_treatment_is_named_by_a_rule() -> None:
    named = {rule.fix.treatment for rule in rulebook() if rule.fix is not None}
    assert set(treatments()) == named


def test_a_prefix_and_a_map_are_both_treated(tmp_path: Path, built: Built) -> None:
    prefix = RECIPES["trainer-prefix"].changes
    folder = several("trainer-prefix", tmp_path, *prefix, *RECIPES["d2t-absolute"].changes)
    plan = plan_of(folder)
    assert [step.treatment for step in plan.steps] == ["strip-prefix", "map-to-offsets"]
    fix(folder, tmp_path / "copy", target=folder / "target")
    assert not [f.rule for f in scan(tmp_path / "copy", target=folder / "target").findings if f.severity != "note"]
    right = tensor_bytes(built.path(RECIPES["specforge-eagle3"]) / "model.safetensors")
    assert tensor_bytes(tmp_path / "copy" / "model.safetensors") == right


def test_a_map_that_was_treated_is_not_treated_again(built: Built, tmp_path: Path) -> None:
    """The story: a map that looks like target ids once more is left as it is, whatever it looks like."""
    fix(built.path(RECIPES["d2t-absolute"]), tmp_path / "first")
    weights = tmp_path / "first" / "model.safetensors"
    info = open_checkpoint(str(tmp_path / "first")).tensors["d2t"]
    with weights.open("r+b") as file:
        file.seek(info.start or 0)
        offsets = np.frombuffer(file.read(info.elements * 8), "<i8")
        file.seek(info.start or 0)
        file.write((offsets + np.arange(len(offsets))).tobytes())
    outcome = fix(tmp_path / "first", tmp_path / "second")
    assert outcome.plan.steps == ()
    assert not (tmp_path / "second").exists()
    [item] = [u for u in outcome.plan.unfixed if u.finding.rule == "VOC001"]
    assert "already made on d2t" in item.why
    fix_in_scan = next(f.fix for f in scan(tmp_path / "first").findings if f.rule == "VOC001")
    assert fix_in_scan is not None
    assert fix_in_scan.refused == item.why


def test_a_damaged_receipt_forbids_what_may_have_been_done(built: Built, tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), folder)
    (folder / RECEIPT_NAME).write_text("{", encoding="utf-8")
    outcome = fix(folder, tmp_path / "copy")
    assert outcome.plan.steps == ()
    assert any("cannot be read" in item.why for item in outcome.plan.unfixed)


def test_unsafe_repairs_wait_for_the_word(built: Built, tmp_path: Path) -> None:
    folder = built.path(RECIPES["d2t-missing-with-t2d"])
    outcome = fix(folder, tmp_path / "copy")
    assert outcome.plan.steps == ()
    [item] = [u for u in outcome.plan.unfixed if u.finding.rule == "VOC008"]
    assert "--unsafe" in item.why
    assert fix(folder, tmp_path / "copy", unsafe=True).plan.steps[0].assumption


def test_notes_are_left_alone_unless_they_are_named(built: Built, tmp_path: Path) -> None:
    folder = built.path(RECIPES["automodel-eagle3"])
    assert fix(folder, tmp_path / "copy").plan.steps == ()
    outcome = fix(folder, tmp_path / "copy", select=["KEY004"])
    assert [step.treatment for step in outcome.plan.steps] == ["strip-prefix"]


def test_a_note_is_treated_where_a_named_engine_gains(built: Built, tmp_path: Path) -> None:
    folder = built.path(RECIPES["automodel-eagle3"])
    # Without the target nobody knows whether the engine serves the copy, so that nothing is proven.
    assert fix(folder, tmp_path / "copy", engines=["vllm==0.33.0"]).plan.steps == ()
    outcome = fix(folder, tmp_path / "copy", target=folder / "target", engines=["vllm==0.33.0"])
    assert "strip-prefix" in [step.treatment for step in outcome.plan.steps]
    assert outcome.plan.after.plans[0].outcome == "served"


def test_select_takes_rules_names_families_and_treatments(tmp_path: Path) -> None:
    folder = several("trainer-prefix", tmp_path, *RECIPES["trainer-prefix"].changes, *RECIPES["d2t-absolute"].changes)
    for words in (["KEY001"], ["trainer-prefix"], ["KEY"], ["strip-prefix"]):
        outcome = fix(folder, None, select=words, dry_run=True)
        assert [step.treatment for step in outcome.plan.steps] == ["strip-prefix"], words
    with pytest.raises(UsageError, match="there is no rule"):
        fix(folder, None, select=["nothing"], dry_run=True)


def test_what_cannot_be_decided_is_refused_with_what_decides(built: Built) -> None:
    plan = plan_of(built.path(RECIPES["d2t-open"]))
    assert plan.steps == ()
    [item] = [u for u in plan.unfixed if u.finding.rule == "VOC005"]
    assert "decides" in item.why


def test_conflicting_repairs_are_both_withheld_and_said(built: Built, tmp_path: Path) -> None:
    """Two rules of one's own that set one field to two values."""
    rules = tmp_path / "rules"
    rules.mkdir()
    rows = [
        {
            "id": f"OWN00{n}", "name": f"own-{n}", "severity": "warning", "when": "draft.tabled and draft.has_config",
            "message": "m", "effect": "e", "advice": "a",
            "fix": {"treatment": "set-config", "safety": "safe", "summary": "s",
                    "with": {"field": "'a_field'", "value": str(n)}},
            "examples": {"bad": ["x"], "good": ["y"]},
        }
        for n in (1, 2)
    ]  # fmt: skip
    (rules / "own.yaml").write_text(json.dumps(rows), encoding="utf-8")
    book = rulebook((rules,))
    checkpoint = open_checkpoint(str(built.path(RECIPES["specforge-eagle3"])))
    plan = plan_repair(checkpoint, None, book, Options())
    assert plan.steps == ()
    whys = {u.finding.rule: u.why for u in plan.unfixed if u.finding.rule.startswith("OWN")}
    assert set(whys) == {"OWN001", "OWN002"}
    assert all("neither is made" in why for why in whys.values())


def test_a_state_refuses_edits_that_do_not_fit(built: Built) -> None:
    state = State.of(open_checkpoint(str(built.path(RECIPES["specforge-eagle3"]))))
    for edits in (
        [RenameTensor("nothing", "x")],
        [RenameTensor("norm.weight", "fc.weight")],
        [DropTensor("nothing")],
        [AddTensor("norm.weight", "F32", (1,))],
    ):
        with pytest.raises(BrokenEditError):
            state.after(edits)


def test_names_may_be_exchanged(built: Built) -> None:
    state = State.of(open_checkpoint(str(built.path(RECIPES["specforge-eagle3"]))))
    after = state.after([RenameTensor("d2t", "t2d"), RenameTensor("t2d", "d2t")]).checkpoint
    assert after.tensors["t2d"].stored_as == "d2t"
    assert after.tensors["d2t"].stored_as == "t2d"


@pytest.mark.parametrize(
    ("values", "said"),
    [({"field": "3", "value": "4"}, "cannot use these values"), ({"field": "'a'", "value": "None"}, "")],
)
def test_values_that_a_treatment_cannot_use_are_told_as_a_fault_of_the_rule(
    values: dict[str, str], said: str, built: Built, tmp_path: Path
) -> None:
    row = {
        "id": "OWN001", "name": "own", "severity": "warning", "when": "draft.tabled",
        "message": "m", "effect": "e", "advice": "a",
        "fix": {"treatment": "set-config", "safety": "safe", "summary": "s", "with": values},
        "examples": {"bad": ["x"], "good": ["y"]},
    }  # fmt: skip
    (tmp_path / "own.yaml").write_text(json.dumps([row]), encoding="utf-8")
    folder = built.path(RECIPES["specforge-eagle3"])
    if said:
        with pytest.raises(UsageError, match=said):
            scan(folder, rules=[tmp_path])
    else:
        found = next(f for f in scan(folder, rules=[tmp_path]).findings if f.rule == "OWN001")
        assert found.fix is not None
        assert found.fix.refused
