"""Length, per-token acceptance and rates into each other, and the rate that printed pairs give away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.acceptance.counting import Counting
from ckptdoctor.acceptance.judging import acceptance_of
from ckptdoctor.acceptance.paying import paying
from ckptdoctor.acceptance.rate_meaning import RatePairs
from ckptdoctor.acceptance.rates import conditional, length_of, per_token, per_token_without_end

BOTH = {"verified", "proposed"}


@given(st.floats(0, 1), st.integers(1, 64))
def test_per_token_acceptance_and_length_are_each_others_inverse(acceptance: float, proposed: int) -> None:
    length = length_of(acceptance, proposed)
    assert 1 <= length <= proposed + 1 + 1e-9
    assert length_of(per_token(length, proposed), proposed) == pytest.approx(length, abs=1e-9)


@given(st.floats(-5, 500), st.integers(0, 64))
def test_per_token_acceptance_is_a_share_for_any_length(length: float, proposed: int) -> None:
    assert 0 <= per_token(length, proposed) <= 1


@given(st.floats(1, 60), st.integers(1, 64))
def test_without_a_number_of_tokens_the_least_acceptance_is_known(length: float, proposed: int) -> None:
    if length <= proposed + 1:
        assert per_token_without_end(length) <= per_token(length, proposed) + 1e-9


def test_known_values() -> None:
    assert per_token(2.0, 1) == pytest.approx(1.0)
    assert per_token(1.0, 5) == 0
    assert length_of(0.6, 3) == pytest.approx(2.176)


def test_of_a_tree_only_bounds_are_known() -> None:
    low, high = acceptance_of(2.176, Counting(engine="sglang", tokens=16, steps=3, topk=4))
    assert high == pytest.approx(0.6)
    assert low == pytest.approx(0.15)


def test_what_is_accepted_once_it_is_reached() -> None:
    assert conditional([0.75, 0.57, 0.45]) == pytest.approx([0.75, 0.76, 0.789], abs=1e-3)
    assert conditional([0.036, 0.0006, 0.0])[1:] == [None, None]


@pytest.mark.parametrize(
    ("pairs", "tokens", "decided"),
    [
        # sgl-project/sglang#11948, release 0.5.3.post3, started with four draft tokens.
        ([(2.17, 0.54), (1.95, 0.49), (1.80, 0.45), (2.05, 0.51), (1.57, 0.39)], None, ("verified", 4)),
        ([(2.17, 0.54), (1.57, 0.39)], 4, ("verified", 4)),
        # sgl-project/sglang#27908, a release with the rate of sgl-project/sglang#23530.
        ([(1.00, 0.00)], 4, ("proposed", 4)),
        ([(1.00, 0.00)], None, ("proposed", None)),
        ([(1.00, 0.20)], None, ("verified", 5)),
        ([(2.10, 0.37)], 4, ("proposed", 4)),
        # Nothing fits: drafts of changing lengths.
        ([(2.17, 0.54), (2.17, 0.30)], 4, None),
        ([], 4, None),
    ],
)
def test_length_and_rate_show_what_the_rate_is(
    pairs: list[tuple[float, float]], tokens: int | None, decided: tuple[str, int | None] | None
) -> None:
    found = RatePairs()
    for length, rate in pairs:
        found = found.with_pair(length, rate)
    assert found.decided(1, tokens, BOTH) == decided


@given(st.integers(2, 16), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_printed_pairs_always_allow_the_number_that_made_them(tokens: int, shares: list[float]) -> None:
    verified, proposed = RatePairs(), RatePairs()
    for share in shares:
        length = 1 + share * (tokens - 1)
        verified = verified.with_pair(round(length, 2), round(length / tokens, 2))
        proposed = proposed.with_pair(round(length, 2), round(share, 2))
    assert verified.fits("verified", tokens)
    assert proposed.fits("proposed", tokens - 1)


def test_cost_of_a_step_is_the_length_at_which_it_breaks_even() -> None:
    pays = paying(2.0, 80.0, 100.0, 4)
    assert pays.cost == pytest.approx(2.5)
    assert pays.speedup == pytest.approx(0.8)
    assert pays.needed is not None
    assert length_of(pays.needed, 4) == pytest.approx(2.5)
    assert pays.each == pytest.approx(1.5 / 4)


def test_with_too_dear_a_step_no_draft_pays() -> None:
    pays = paying(1.5, 40.0, 100.0, 2)
    assert pays.cost == pytest.approx(3.75)
    assert pays.possible is False
    assert pays.needed is None


def test_fewer_tokens_are_reckoned_from_the_places_where_they_are_known() -> None:
    pays = paying(2.0, 100.0, 100.0, 3, positions=(0.7, 0.2, 0.1))
    assert [fewer.length for fewer in pays.fewer] == pytest.approx([1.7, 1.9])
    assert pays.fewer[0].speedup == pytest.approx(1.7 / (1 + 1 / 3))


def test_a_tree_or_a_block_has_no_cost_for_each_token() -> None:
    pays = paying(2.0, 100.0, 100.0, 3, chain=False)
    assert (pays.each, pays.fewer) == (None, ())
