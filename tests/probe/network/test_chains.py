"""Chains are what a server's draft would do: compared with drafting token by token, one position at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

from ckptdoctor.probe.network.chains import follow, run_chains, target_ids  # noqa: E402
from ckptdoctor.probe.network.network import Memory, Network, open_draft  # noqa: E402
from ckptdoctor.probe.samples.samples import Sample, Samples  # noqa: E402
from ckptdoctor.probe.wiring import EMBEDDING, Wiring  # noqa: E402

TRAINERS = Path(__file__).parents[3] / "fixtures" / "trainers"
DRAFTS = ["sf_eagle3_llama_sglang", "spec_eagle3_llama", "sf_peagle_qwen3"]
STEPS = 4


def _opened(name: str) -> Network:
    torch.manual_seed(7)
    network, anatomy, _ = open_draft(str(TRAINERS / name))
    network.weights.setdefault("embed_tokens.weight", torch.randn(anatomy.vocab_size, anatomy.hidden))
    if anatomy.parallel and anatomy.mask_token is None:
        network = Network(network.weights, replace(anatomy, mask_token=3))
    return network


def _drafted(network: Network, sample: Sample, wiring: Wiring, position: int, steps: int) -> list[int]:
    """What a server would be proposed after `position`: the draft fed its own guesses, nothing computed for others."""
    ids = target_ids(network, wiring.map)
    upto = position + 1
    hidden = network.fuse(sample.states[:upto][:, list(wiring.states)], wiring)
    given = sample.tokens[1 : upto + 1]
    memory = Memory()
    out = network.step(hidden, network.embed(given), torch.arange(upto), memory, wiring)
    proposed = []
    for step in range(steps):
        token = int(ids[network.logits(out[-1:], wiring).argmax(-1)])
        proposed.append(token)
        if network.anatomy.parallel:
            state, embedded = network.masked(upto, wiring)
        else:
            state = network.handed_on(out, wiring)
            # Rows of other positions are never looked at; a real token keeps the embedding happy.
            embedded = network.embed(torch.full((upto,), max(token, 0)))
        out = network.step(state, embedded, torch.arange(upto) + step + 1, memory, wiring)
    return proposed


def _text_of(network: Network, wiring: Wiring) -> Sample:
    """A text that the draft itself would half guess: some tokens are its own proposals, others are not."""
    torch.manual_seed(1)
    anatomy = network.anatomy
    count = 24
    states = torch.randn(count, anatomy.states, anatomy.target_width)
    sample = Sample("text", torch.randint(5, anatomy.vocab_size, (count,)), torch.ones(count, dtype=torch.bool), states)
    for start in range(2, count - STEPS - 1, 6):
        proposed = _drafted(network, sample, wiring, start, STEPS)
        for step, token in enumerate(proposed[: 1 + start % (STEPS + 1)]):
            sample.tokens[start + 2 + step] = max(token, 0)
    return sample


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("norm_output", [False, True])
def test_hits_up_to_the_first_miss_are_those_of_a_server(name: str, norm_output: bool) -> None:
    network = _opened(name)
    wiring = Wiring(tuple(range(network.anatomy.states)), norm_output=norm_output)
    with torch.inference_mode():
        sample = _text_of(network, wiring)
        chains = follow(network, sample, 0, wiring, {1: target_ids(network, 1)}, STEPS)[1]
        lengths = set()
        for position in range(len(chains.place)):
            proposed = _drafted(network, sample, wiring, position, STEPS)
            right = [
                position + 2 + step < len(sample.tokens) and int(sample.tokens[position + 2 + step]) == token
                for step, token in enumerate(proposed)
            ]
            expected = right.index(False) if False in right else STEPS
            accepted = int((chains.at_risk & chains.hit)[position].sum())
            assert accepted == expected, (position, proposed)
            lengths.add(accepted)
    assert len(lengths) > 2  # the text has chains of several lengths, so that the comparison says something


def test_only_tokens_of_the_target_are_judged() -> None:
    network = _opened("sf_eagle3_llama_sglang")
    wiring = Wiring((0, 1, 2))
    sample = _text_of(network, wiring)
    counted = torch.zeros(24, dtype=torch.bool)
    counted[10:20] = True
    chains = run_chains(
        network, Samples("specforge", (replace(sample, counted=counted),), (None,) * 3), wiring, steps=3
    )[1]
    # Position i guesses token i + 2 first: positions 8 to 17 are judged, and their further steps up to token 19.
    assert chains.open[:, 0].nonzero()[:, 0].tolist() == list(range(8, 18))
    assert chains.open[:, 2].nonzero()[:, 0].tolist() == list(range(8, 16))


def test_a_chain_ends_where_the_text_is_not_what_the_target_answers() -> None:
    network = _opened("sf_eagle3_llama_sglang")
    wiring = Wiring((0, 1, 2))
    sample = _text_of(network, wiring)
    answers = torch.cat([sample.tokens[1:], torch.tensor([0])])
    answers[11] = (sample.tokens[12] + 1) % 500  # at token 12 the text went on with something else
    found = run_chains(network, Samples("target", (replace(sample, answers=answers),), (None,) * 3), wiring, steps=3)[1]
    assert found.open[10].tolist() == [True, False, False]  # token 12 itself is judged, by the answer
    assert found.open[9].tolist() == [True, True, False]
    assert found.open[11].all()
    assert not found.hit[10, 0] or int(sample.tokens[12]) != int(answers[11])


def test_readings_of_the_map_come_from_one_run() -> None:
    network = _opened("spec_eagle3_llama")
    wiring = Wiring((0, 1, 2))
    samples = Samples("specforge", (_text_of(network, wiring),), (None,) * 3)
    together = run_chains(network, samples, wiring, steps=2, maps=(0, 1, 2))
    for k in (0, 1, 2):
        alone = run_chains(network, samples, replace(wiring, map=k), steps=2)[k]
        assert torch.equal(alone.hit, together[k].hit)
        assert torch.equal(alone.likelihood, together[k].likelihood)


def test_target_ids() -> None:
    network = _opened("spec_eagle3_llama")
    d2t = network.weights["d2t"]
    rows = torch.arange(len(d2t))
    assert torch.equal(target_ids(network, 1), rows + d2t)
    inside = (d2t >= 0) & (d2t < network.anatomy.vocab_size)
    assert torch.equal(target_ids(network, 0), torch.where(inside, d2t, -1))
    del network.weights["d2t"]
    assert torch.equal(target_ids(network, 1), rows)


def test_the_embedding_in_place_of_a_state() -> None:
    network = _opened("spec_eagle3_llama")
    sample = _text_of(network, Wiring((0, 1, 2)))
    with_column = replace(sample, states=torch.cat([network.embed(sample.tokens)[:, None], sample.states], 1).detach())
    one = run_chains(network, Samples("specforge", (sample,), (None,) * 3), Wiring((EMBEDDING, 0, 1)), steps=2)[1]
    two = run_chains(network, Samples("specforge", (with_column,), (0, None, None, None)), Wiring((0, 1, 2)), steps=2)[
        1
    ]
    assert torch.equal(one.hit, two.hit)
    assert torch.allclose(one.likelihood, two.likelihood)
