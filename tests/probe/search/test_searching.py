"""The wiring search on texts that a draft itself wrote under a known wiring: whatever it was, the search names it.

The draft is a random one, so that no two readings agree by accident and a wrong one is no better than chance.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

from ckptdoctor.facts import Facts  # noqa: E402
from ckptdoctor.probe.network.chains import chosen_states, target_ids  # noqa: E402
from ckptdoctor.probe.network.network import Memory, Network, open_draft  # noqa: E402
from ckptdoctor.probe.samples.samples import Sample, Samples  # noqa: E402
from ckptdoctor.probe.search.readings import PARTS  # noqa: E402
from ckptdoctor.probe.search.searching import search  # noqa: E402
from ckptdoctor.probe.search.suggesting import readings_for  # noqa: E402
from ckptdoctor.probe.search.tries import part_of  # noqa: E402
from ckptdoctor.probe.wiring import EMBEDDING, Wiring  # noqa: E402

DRAFT = Path(__file__).parents[3] / "fixtures" / "trainers" / "spec_eagle3_llama"
BOUNDARIES = tuple(range(1, 8))
STATED = Wiring((1, 3, 4), residual_after_norm=True)
"""What the files of the draft state on these samples: boundaries 2, 4 and 5 of 8 layers."""

TRUTHS = {
    "as stated": STATED,
    "another order": replace(STATED, states=(3, 1, 4)),
    "the embedding and two layers": replace(STATED, states=(EMBEDDING, 1, 3)),
    "one layer earlier": replace(STATED, states=(0, 2, 3)),
    "two layers later": replace(STATED, states=(3, 5, 6)),
    "its own token": replace(STATED, token=0),
    "the token after the next": replace(STATED, token=2),
    "absolute map": replace(STATED, map=0),
    "map counted twice": replace(STATED, map=2),
    "residual before the norm": replace(STATED, residual_after_norm=False),
    "normed twice": replace(STATED, normed_twice=True),
    "another rotary base": replace(STATED, rope_base=1000000.0),
    "no norm before the head": replace(STATED, head_norm=False),
    "one state straight in": replace(STATED, fc=False, states=(2,)),
    "three faults at once": replace(STATED, states=(EMBEDDING, 1, 3), map=0, residual_after_norm=False),
}


def _network() -> tuple[Network, Facts]:
    torch.manual_seed(0)
    network, anatomy, facts = open_draft(str(DRAFT))
    for name, weight in list(network.weights.items()):
        if weight.ndim == 2:
            network.weights[name] = torch.randn_like(weight) * 1.5 / weight.shape[1] ** 0.5
        elif weight.is_floating_point():
            network.weights[name] = 1 + 0.5 * torch.randn_like(weight)
    network.weights["embed_tokens.weight"] = torch.randn(anatomy.vocab_size, anatomy.hidden)
    # A map whose absolute and doubled readings are inside of the vocabulary, too.
    rows = torch.arange(anatomy.draft_vocab_size)
    network.weights["d2t"] = rows + 3
    return network, facts


def _written(network: Network, wiring: Wiring, count: int = 44) -> Sample:
    """A text of which every token is the draft's first guess under `wiring`."""
    states = torch.randn(count, len(BOUNDARIES), network.anatomy.target_width)
    tokens = torch.randint(5, network.anatomy.vocab_size, (count,))
    ids = target_ids(network, wiring.map)
    for position in range(count - wiring.token - 1):
        end = position + 1 + wiring.token
        so_far = Sample("", tokens[:end], torch.ones(end, dtype=torch.bool), states[:end])
        fused = network.fuse(chosen_states(network, so_far, wiring)[: position + 1], wiring)
        beside = network.embed(tokens[wiring.token : end])
        out = network.step(fused, beside, torch.arange(position + 1), Memory(), wiring)
        tokens[end] = ids[network.logits(out[-1:], wiring).argmax(-1)]
    return Sample("text", tokens, torch.ones(count, dtype=torch.bool), states)


@pytest.mark.parametrize("name", TRUTHS)
def test_the_search_names_the_wiring_that_wrote_the_texts(name: str) -> None:
    network, facts = _network()
    truth = TRUTHS[name]
    with torch.inference_mode():
        samples = Samples("target", tuple(_written(network, truth) for _ in range(2)), BOUNDARIES)
    readings = readings_for(facts, network, samples)
    readings = replace(readings, stated=STATED, starts=(STATED.states, *readings.starts))
    found = search(network, samples, readings, steps=2)
    # What the draft hands on to a second step plays no part in texts of first guesses.
    assert replace(found.wiring, norm_output=False) == truth
    differs = {part for part in found.changed if part != "norm_output"}
    assert differs == {part for part in PARTS if getattr(truth, part) != getattr(STATED, part)}
    assert found.beats_stated_in == (0.5 if truth == STATED else 1.0)
    assert set(found.open_parts) <= {"norm_output"}
    first = found.chains
    assert int((first.hit & first.at_risk)[:, 0].sum()) == int(first.at_risk[:, 0].sum())  # every first guess is right


def test_a_search_is_the_same_each_time() -> None:
    network, facts = _network()
    with torch.inference_mode():
        samples = Samples("target", (_written(network, TRUTHS["one layer earlier"]),), BOUNDARIES)
    readings = readings_for(facts, network, samples)
    one, two = (search(network, samples, readings, steps=2) for _ in range(2))
    assert (one.wiring, one.length, one.alternatives, one.tried) == (
        two.wiring,
        two.length,
        two.alternatives,
        two.tried,
    )


def test_part_of_samples_is_cut_by_counted_tokens() -> None:
    network, _ = _network()
    with torch.inference_mode():
        samples = Samples("target", tuple(_written(network, STATED, 20) for _ in range(3)), BOUNDARIES)
    part = part_of(samples, 30)
    assert [len(item.tokens) for item in part.items] == [20, 10]
    assert part.counted == 30
    assert part_of(samples, 1000).counted == 60
