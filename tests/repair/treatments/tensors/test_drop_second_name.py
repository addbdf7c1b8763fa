"""Of two names for the same bytes one goes, and both stay where the bytes differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from treating.tensors import dropped
from treatment_cases import Draft, answer, draft_of, plan, write

from ckptdoctor.repair.plan.case import Proposal


def twice(draft: Draft, old: str = "midlayer.", new: str = "layers.0.") -> Draft:
    draft.tensors |= {n.replace(old, new, 1): t for n, t in draft.tensors.items() if n.startswith(old)}
    return draft


def test_of_two_layouts_with_equal_bytes_one_goes(tmp_path: Path) -> None:
    draft = twice(draft_of())
    folder = write(draft, tmp_path)
    made = plan(folder)
    (step,) = made.steps
    assert (step.treatment, step.safety) == ("drop-second-name", "safe")
    # The older releases know midlayer alone.
    assert {e.name for e in step.edits} == {n for n in draft.tensors if n.startswith("layers.0.")}  # type: ignore[union-attr]
    assert set(made.after.facts.tensors) == set(draft_of().tensors)


@pytest.mark.parametrize("engine", ["sglang==0.5.11", "sglang==0.5.23", "vllm==0.33.0"])
def test_a_named_engine_serves_what_is_left(engine: str, tmp_path: Path) -> None:
    made = plan(write(twice(draft_of()), tmp_path), engine)
    assert [p.outcome for p in made.after.plans] == ["served"]
    assert set(made.after.facts.tensors) == set(draft_of().tensors)


def test_the_kind_of_name_that_most_tensors_have_is_kept(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    draft.tensors["model.norm.weight"] = draft.tensors["norm.weight"]
    draft.tensors["midlayer.hidden_norm.weight"] = draft.tensors["layers.0.hidden_norm.weight"]
    told = answer(write(draft, tmp_path), "KEY014")
    assert set(dropped(told)) == {("midlayer.hidden_norm.weight", None), ("model.norm.weight", None)}


@pytest.mark.parametrize("change", ["last byte", "dtype", "shape"])
def test_two_names_with_different_values_both_stay(change: str, tmp_path: Path) -> None:
    draft = twice(draft_of())
    name = "layers.0.mlp.down_proj.weight"
    old = draft.tensors[name]
    match change:
        case "last byte":
            draft.tensors[name] = replace(old, data=old.data[:-1] + bytes([old.data[-1] ^ 1]))
        case "dtype":
            draft.tensors[name] = replace(old, dtype="F16")
        case "shape":
            draft.tensors[name] = replace(old, shape=old.shape[::-1])
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY014")
    assert isinstance(told, str)
    assert "hold different values. The training run decides" in told
    assert "layers.0.mlp.down_proj.weight" in told
    assert all(s.treatment != "drop-second-name" for s in plan(folder, unsafe=True).steps)
    # A plain scan reads no weights and says what it would do.
    assert isinstance(answer(folder, "KEY014", reads=False), Proposal)
