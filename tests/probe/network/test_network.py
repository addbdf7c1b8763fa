"""The network computes what the trainers' own classes do, step by step."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from recipe_cases import TRAINERS  # noqa: E402

from ckptdoctor.errors import CannotExamineError  # noqa: E402
from ckptdoctor.probe.network import attention  # noqa: E402
from ckptdoctor.probe.network.anatomy import Anatomy  # noqa: E402
from ckptdoctor.probe.network.anatomy_reading import stated_wiring  # noqa: E402
from ckptdoctor.probe.network.network import (  # noqa: E402
    Memory,
    Network,
    open_draft,
)
from ckptdoctor.probe.wiring import Wiring  # noqa: E402
from tests.conformance.trainers.trainer_cases import KEPT, MADE, RECORDED, write_made  # noqa: E402
from tests.conformance.trainers.trainer_compare import TOLERANCE, apart, run_network  # noqa: E402


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any]:
    """What the classes gave (`DRAFT.TRAINER` → logits), written by `python -m tests.conformance.trainer_classes`."""
    with np.load(RECORDED) as file:
        return dict(file)


NAMES = sorted(np.load(RECORDED).files)


def folder_of(name: str, tmp_path: Path) -> tuple[Path, str]:
    draft, _, trainer = name.rpartition(".")
    if draft in MADE:
        write_made(draft, tmp_path / draft)
        return tmp_path / draft, trainer
    return TRAINERS / draft, trainer


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_every_step_are_those_of_the_trainers_class(name: str, tmp_path: Path) -> None:
    logits, _ = run_network(*folder_of(name, tmp_path))
    assert apart(recorded()[name], logits[:, KEPT]) < TOLERANCE


def test_classes_of_both_trainers_and_both_algorithms_are_recorded() -> None:
    trainers = {name.rpartition(".")[2] for name in NAMES}
    assert trainers == {"specforge", "speculators"}
    assert set(MADE) <= {name.rpartition(".")[0] for name in NAMES}
    assert sum("peagle" in name for name in NAMES) >= 5


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("spec_eagle31", {"norm_output": False}),
        ("spec_eagle31", {"fc_norm": False}),
        ("spec_eagle31", {"residual_after_norm": False}),
        ("spec_input_norm", {"norm_before_fc": False}),
        ("sf_no_head_norm", {"head_norm": True}),
        ("sf_fc_norm", {"norm_output": True}),
        ("sf_llama3", {"rope_scaling": False}),
        ("sf_yarn_both", {"rope_scaling": False}),
        ("spec_yarn", {"rope_base": 10000.0}),
        ("sf_says_before_residual", {"residual_after_norm": True}),
    ],
)
def test_another_wiring_gives_something_else(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """The comparison is no formality: each flag that is read otherwise is seen."""
    trainer = MADE[name].trainer
    write_made(name, tmp_path / name)
    logits, _ = run_network(tmp_path / name, trainer, **changes)
    assert apart(recorded()[f"{name}.{trainer}"], logits[:, KEPT]) > 1e-3


def made(name: str, tmp_path: Path) -> tuple[Network, Anatomy, Wiring]:
    write_made(name, tmp_path / name)
    network, anatomy, facts = open_draft(str(tmp_path / name))
    return network, anatomy, stated_wiring(facts, anatomy, anatomy.states)


def states_of(anatomy: Anatomy, length: int) -> Any:
    torch.manual_seed(5)
    return torch.randn(length, anatomy.states, anatomy.target_width)


@pytest.mark.parametrize("name", ["spec_eagle31", "spec_input_norm", "sf_llama3", "spec_peagle"])
def test_a_chain_is_what_a_server_computes_for_one_position(name: str, tmp_path: Path) -> None:
    """At one position: the text up to it, then its own steps one after the other as an ordinary causal sequence."""
    network, anatomy, wiring = made(name, tmp_path)
    length, steps, place = 9, 4, 5
    states, tokens = states_of(anatomy, length), torch.arange(length + steps) % anatomy.vocab_size
    hidden, memory = network.fuse(states, wiring), Memory()
    for step in range(steps):
        embedded = network.embed(tokens[step : step + length])
        if step and anatomy.parallel:
            hidden, embedded = network.masked(length, wiring)
        raw = network.step(hidden, embedded, torch.arange(length) + step, memory, wiring)
        hidden = network.handed_on(raw, wiring)
        # The whole sequence from the start: the text's states, then those that the draft handed on.
        if step == 0:
            given, beside = [network.fuse(states[: place + 1], wiring)], [network.embed(tokens[: place + 1])]
        alone = network.step(torch.cat(given), torch.cat(beside), torch.arange(place + 1 + step), Memory(), wiring)
        assert torch.allclose(alone[-1], raw[place], atol=1e-5)
        more = network.handed_on(alone[-1:], wiring), network.embed(tokens[place + step + 1][None])
        if anatomy.parallel:
            more = network.masked(1, wiring)
        given.append(more[0])
        beside.append(more[1])


def test_no_position_sees_what_comes_after_it(tmp_path: Path) -> None:
    network, anatomy, wiring = made("spec_input_norm", tmp_path)
    states, tokens = states_of(anatomy, 8), torch.arange(8)
    changed = states.clone()
    changed[5:] += 1.0
    outs = [
        network.step(network.fuse(s, wiring), network.embed(tokens), torch.arange(8), Memory(), wiring)
        for s in (states, changed)
    ]
    assert torch.equal(outs[0][:5], outs[1][:5])
    assert not torch.equal(outs[0][5:], outs[1][5:])


@pytest.mark.parametrize("name", ["spec_windows", "spec_peagle_windows", "sf_linear"])
def test_long_texts_in_blocks_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = run_network_of(name, tmp_path / "whole")
    monkeypatch.setattr(attention, "_SCORES", 4 * 14 * 3)  # three queries at once
    parts, _ = run_network_of(name, tmp_path / "parts")
    assert apart(whole, parts) < TOLERANCE


def run_network_of(name: str, folder: Path) -> Any:
    write_made(name, folder / name)
    return run_network(folder / name, MADE[name].trainer)


@pytest.mark.parametrize("name", ["spec_eagle31", "spec_input_norm", "spec_peagle", "spec_plain"])
def test_every_weight_gets_a_gradient(name: str, tmp_path: Path) -> None:
    network, anatomy, wiring = made(name, tmp_path)
    learnt = {n: w for n, w in network.weights.items() if w.is_floating_point()}
    for weight in learnt.values():
        weight.requires_grad_(True)

    def loss() -> Any:
        hidden, memory, total = network.fuse(states_of(anatomy, 6), wiring), Memory(), torch.zeros(())
        for step in range(3):
            embedded = network.embed(torch.arange(6) + step)
            if step and anatomy.parallel:
                hidden, embedded = network.masked(6, wiring)
            hidden = network.step(hidden, embedded, torch.arange(6) + step, memory, wiring)
            right = (torch.arange(6) * 7 + step) % anatomy.draft_vocab_size
            total = total + torch.nn.functional.cross_entropy(network.logits(hidden, wiring), right)
            hidden = network.handed_on(hidden, wiring)
        return total

    first = loss()
    first.backward()
    assert [n for n, w in learnt.items() if w.grad is None or not w.grad.isfinite().all()] == []
    with torch.no_grad():
        for weight in learnt.values():
            weight.sub_(0.01 * weight.grad)
    assert loss() < first


def test_without_fc_one_state_goes_straight_in(tmp_path: Path) -> None:
    network, anatomy, wiring = made("sf_linear", tmp_path)
    states = states_of(anatomy, 4)
    assert torch.equal(network.fuse(states[:, 2:], replace(wiring, fc=False)), states[:, 2])


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    network, anatomy, wiring = made("sf_linear", tmp_path)
    with pytest.raises(CannotExamineError, match=r"input_norm\.weight"):
        network.fuse(states_of(anatomy, 2), replace(wiring, norm_before_fc=True))
    with pytest.raises(CannotExamineError, match="outside of the embedding"):
        network.embed(torch.tensor([0, anatomy.vocab_size]))
    with pytest.raises(CannotExamineError, match="outside of the embedding"):
        network.embed(torch.tensor([-1]))
    with pytest.raises(CannotExamineError, match="mask token"):
        network.masked(2, wiring)
    del network.weights["lm_head.weight"]
    with pytest.raises(CannotExamineError, match="--target"):
        network.logits(torch.zeros(1, anatomy.hidden), wiring)


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    network, anatomy, wiring = made("sf_linear", tmp_path)
    head = network.weights.pop("lm_head.weight")
    network.anatomy = replace(anatomy, tied=True, head=False)
    hidden = torch.randn(3, anatomy.hidden)
    tied = network.logits(hidden, wiring)
    assert tied.shape == (3, anatomy.vocab_size)
    network.weights["lm_head.weight"] = head
    assert network.logits(hidden, wiring).shape == (3, len(head))


def test_an_empty_text_gives_nothing(tmp_path: Path) -> None:
    network, anatomy, wiring = made("spec_windows", tmp_path)
    none = torch.zeros(0, dtype=torch.int64)
    out = network.step(network.fuse(states_of(anatomy, 0), wiring), network.embed(none), none, Memory(), wiring)
    assert network.logits(out, wiring).shape == (0, anatomy.draft_vocab_size)
