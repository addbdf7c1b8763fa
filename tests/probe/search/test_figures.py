"""Figures of chains: counts, the accepted length, and intervals that hold what they should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

from ckptdoctor.probe.network.chains import Chains  # noqa: E402
from ckptdoctor.probe.search.figures import accepted_length, difference, step_figures, wilson  # noqa: E402


def _chains(hits: list[list[bool]], opened: list[list[bool]] | None = None) -> Chains:
    hit = torch.tensor(hits)
    judged = torch.ones_like(hit) if opened is None else torch.tensor(opened)
    place = torch.arange(len(hits))
    return Chains(hit & judged, judged, torch.zeros_like(hit, dtype=torch.float32), torch.zeros_like(place), place)


def test_a_step_counts_only_where_all_before_it_were_right() -> None:
    steps = step_figures(_chains([[True, True, False], [True, False, True], [False, True, True], [True, True, True]]))
    assert [(s.number, s.hits, s.of) for s in steps] == [(1, 3, 4), (2, 2, 3), (3, 1, 2)]


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=60))
def test_where_every_step_can_be_judged_the_length_is_the_mean_of_what_is_accepted(hits: list[list[bool]]) -> None:
    accepted = [row.index(False) if False in row else 3 for row in hits]
    found = accepted_length(_chains(hits))
    assert found.value == pytest.approx(1 + sum(accepted) / len(accepted))
    assert 1.0 <= found.interval.low <= found.value <= found.interval.high <= 4.0


def test_a_chain_cut_short_counts_up_to_there() -> None:
    # Four chains with a right first step; of the two that can go on, one is right.
    hits = [[True, True], [True, False], [True, False], [True, False]]
    opened = [[True, True], [True, True], [True, False], [True, False]]
    assert accepted_length(_chains(hits, opened)).value == pytest.approx(1 + 1 + 0.5)


def test_nothing_judged() -> None:
    nothing = _chains([[False, False]], [[False, False]])
    assert accepted_length(nothing).value == 1.0
    assert [step.accuracy for step in step_figures(nothing)] == [None, None]


def test_the_interval_is_never_empty_where_all_are_alike() -> None:
    always = accepted_length(_chains([[True] * 3] * 40))
    assert always.value == 4.0
    assert always.interval.low < 4.0
    never = accepted_length(_chains([[False] * 3] * 40))
    assert never.value == 1.0
    assert never.interval.high > 1.0


def test_wilson() -> None:
    # Wilson 1927; the values are those of statsmodels' proportion_confint(method="wilson").
    interval = wilson(8, 10)
    assert (interval.low, interval.high) == (pytest.approx(0.4901625, abs=1e-6), pytest.approx(0.9433178, abs=1e-6))
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


def test_difference_is_paired() -> None:
    torch.manual_seed(0)
    one = (torch.rand(200, 3) < 0.6).tolist()
    gained, share = difference(_chains(one), _chains(one))
    assert (gained, share) == (0.0, 0.5)
    other = [[False, *row[1:]] if number % 5 == 0 else row for number, row in enumerate(one)]
    gained, share = difference(_chains(one), _chains(other))
    assert gained > 0
    assert share == 1.0
    assert difference(_chains(other), _chains(one))[1] == 0.0
