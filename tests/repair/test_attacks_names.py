"""Drafts whose names, or classes, led `fix` astray: a layer stored twice, a stop made silent, two faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from treatment_cases import Draft, answer, draft_of, plan, write

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Proposal


def under(draft: Draft, old: str, new: str) -> Draft:
    """The tensors under `old` called `new`."""
    draft.tensors = {n.replace(old, new, 1) if n.startswith(old) else n: t for n, t in draft.tensors.items()}
    return draft


def with_second_layer(prefix: str) -> Draft:
    """midlayer, and other values of the same layer under `prefix`layers.0."""
    draft = draft_of()
    other = {n: t for n, t in draft_of().tensors.items() if n.startswith("midlayer.")}
    for name, tensor in other.items():
        changed = bytes([tensor.data[0] ^ 1]) + tensor.data[1:]
        draft.tensors[prefix + name.replace("midlayer.", "layers.0.")] = type(tensor)(
            tensor.dtype, tensor.shape, changed
        )
    return draft


@pytest.mark.parametrize("prefix", ["module.", "base_model.model.", "model."])
def test_a_prefix_stays_on_the_second_copy_of_a_layer(prefix: str, tmp_path: Path) -> None:
    """midlayer and layers.0 are one layer to engines: without the prefix the later of the two would win."""
    folder = write(with_second_layer(prefix), tmp_path / "d")
    for engines in ((), ("vllm==0.33.0",), ("sglang==0.5.23",)):
        made = plan(folder, *engines, unsafe=True)
        renamed = [s for s in made.steps if s.treatment in ("strip-prefix", "layout-for-engine", "rename-layer")]
        assert renamed == [], engines


def test_a_layout_is_not_changed_while_a_parameter_has_two_names(tmp_path: Path) -> None:
    folder = write(with_second_layer(""), tmp_path / "d")
    made = plan(folder, "sglang==0.5.9")
    assert "layout-for-engine" not in [s.treatment for s in made.steps]


def test_a_loud_stop_is_not_made_a_silent_one(tmp_path: Path) -> None:
    """A class of this kind of draft that would run on random numbers, since the file lacks a projection."""
    draft = draft_of()
    assert draft.config is not None
    draft.config["architectures"] = ["LlamaForCausalLMEagle3Deep"]
    del draft.tensors["midlayer.self_attn.o_proj.weight"]
    told = answer(write(draft, tmp_path / "d"), "SRV005", "vllm==0.33.0")
    assert isinstance(told, str)
    assert "at random values" in told


def test_what_a_class_cannot_change_does_not_decide_about_it(tmp_path: Path) -> None:
    """Two lists of captured layers that disagree, and a class of another attention: the class can be treated, though no
    plan of the copy shows that it is right: the layers stay open."""
    draft = draft_of()
    assert draft.config is not None
    draft.config["architectures"] = ["Qwen3ForCausalLM"]
    draft.config["eagle_aux_hidden_state_layer_ids"] = [2, 4, 6]
    draft.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}
    folder, engines = write(draft, tmp_path / "d"), ("sglang==0.5.9", "vllm==0.33.0")
    assert plan(folder, *engines).steps == ()
    (step,) = plan(folder, *engines, unsafe=True).steps
    assert (step.treatment, step.safety) == ("set-architecture", "unsafe")
    assert "the plan of the copy does not show" in (step.assumption or "")


@pytest.mark.parametrize(
    ("field", "value", "more"),
    [("num_hidden_layers", 32, ["set-depth"]), ("intermediate_size", 999, ["size-from-tensors"])],
)
def test_a_layer_under_another_name_beside_a_wrong_size(
    field: str, value: int, more: list[str], tmp_path: Path
) -> None:
    draft = under(draft_of(), "midlayer.", "decoder.")
    assert draft.config is not None
    draft.config[field] = value
    made = plan(write(draft, tmp_path / "d"))
    assert [s.treatment for s in made.steps] == ["rename-layer", *more]
    assert not [f.rule for f in made.after.judgement.findings if f.severity != "note"]


def test_two_layers_lie_about_and_one_is_stored(tmp_path: Path) -> None:
    draft = under(draft_of("speculators-eagle3", layers=2), "layers.1.", "decoder.")
    made = plan(write(draft, tmp_path / "d"))
    assert "set-depth" not in [s.treatment for s in made.steps]


@pytest.mark.parametrize("fault", [{"num_hidden_layers": 32}, {"target_hidden_size": 128}])
def test_a_class_is_found_although_something_else_stops_every_load(fault: dict[str, int], tmp_path: Path) -> None:
    draft = draft_of()
    assert draft.config is not None
    draft.config |= {**fault, "architectures": None}
    told = answer(write(draft, tmp_path / "d"), "ARC003")
    assert isinstance(told, Proposal), told
    assert told.edits == (SetConfig("architectures", ["LlamaForCausalLMEagle3"]),)
