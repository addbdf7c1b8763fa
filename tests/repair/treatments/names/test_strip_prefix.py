"""A prefix is taken off the names that carry it, and stays where a name is taken or a release looks for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.names import renamed
from treatment_cases import answer, draft_of, floats, plan, refusal, renames, write

from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.treatments.names import strip_prefix


@pytest.mark.parametrize(
    ("prefix", "rule"),
    [("module.", "KEY001"), ("_orig_mod.module.", "KEY002"), ("model.model.", "KEY002"), ("model.", "KEY003")],
)
def test_a_prefix_is_taken_off_every_tensor_that_carries_it(prefix: str, rule: str, tmp_path: Path) -> None:
    names = list(draft_of().tensors)
    folder = write(renamed(draft_of(), "", prefix), tmp_path)
    if prefix == "_orig_mod.module.":  # two trainers, one after the other: no prefix stands twice
        rule = "KEY001"
    told = answer(folder, rule)
    assert renames(told) == {prefix + name: name for name in names}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    after = plan(folder).after
    assert set(after.facts.tensors) == set(names)
    assert {f.rule for f in after.judgement.findings} == {"AUX008"}


def test_tensors_without_the_prefix_keep_their_names(tmp_path: Path) -> None:
    draft = draft_of("automodel-eagle3")
    told = answer(write(draft, tmp_path), "KEY004")
    assert set(renames(told)) == {n for n in draft.tensors if n.startswith("model.")}
    assert "lm_head.weight" not in renames(told)


def test_the_note_on_a_model_prefix_is_followed_for_an_engine_that_needs_it_alone(tmp_path: Path) -> None:
    draft = draft_of()
    for part in ("midlayer.", "fc.", "norm."):
        renamed(draft, part, f"model.{part}")
    folder = write(draft, tmp_path)
    assert plan(folder).steps == ()
    assert plan(folder, "sglang==0.5.23").steps == ()
    found = plan(folder, "vllm==0.33.0")
    assert [s.treatment for s in found.steps] == ["strip-prefix"]
    assert [p.outcome for p in found.after.plans] == ["served"]


def test_a_name_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["module.fc.weight"] = draft.tensors["fc.weight"]
    told = refusal(answer(write(draft, tmp_path), "KEY001"))
    assert "module.fc.weight would be called fc.weight, which is there already" in told


def test_nothing_is_left_without_a_name(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "", "module.")
    draft.tensors["module."] = floats(np.zeros(4))
    assert "no name" in refusal(answer(write(draft, tmp_path), "KEY001"))


def test_a_prefix_that_a_named_release_looks_for_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No release that is known reads a model. alone; one that did would be worse off.
    monkeypatch.setattr(
        strip_prefix, "score", lambda _, facts: (any(n.startswith("model.") for n in facts.tensors) * -1,)
    )
    told = refusal(answer(write(draft_of("automodel-eagle3"), tmp_path), "KEY004", "sglang==0.5.23"))
    assert "sglang 0.5.23 looks for these names with 'model.'" in told
