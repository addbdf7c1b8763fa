"""Lists of ids: a d2t and a t2d that are at odds and yet the same map, and what fills a list up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.vocabulary.id_list import fills_up, relation_to_mask
from ckptdoctor.facts.vocabulary.map_readings import read_map

VOCAB = 1000


def chosen(count: int = 120) -> np.ndarray:
    """Target ids with the first dozen of the vocabulary, and a mask's worth of others above."""
    rest = np.random.default_rng(7).permutation(np.arange(12, VOCAB - 50))[: count - 12]
    return np.sort(np.concatenate([np.arange(12), rest]))


def mask_of(targets: np.ndarray) -> np.ndarray:
    mask = np.zeros(VOCAB, dtype=bool)
    mask[targets] = True
    return mask


@given(st.sets(st.integers(60, VOCAB - 60), min_size=8, max_size=120), st.integers(-50, 50), st.randoms())
def test_a_map_moved_by_any_number_is_told_with_it_in_any_order(ids: set[int], by: int, chance: object) -> None:
    targets = sorted(ids)
    chance.shuffle(targets)  # type: ignore[attr-defined]
    array = np.array(targets, dtype=np.int64)
    found = read_map(array - np.arange(len(array)) + by, VOCAB, mask_of(array))
    if by == 0:
        assert (found.mask_relation, found.confirmed) == (None, 1)
    elif max(ids) - min(ids) >= len(ids):
        assert found.confirmed not in (0, 1)
        assert found.confirmed is not None or (found.mask_relation, found.mask_shift) == ("moved", by)


def test_the_sign_and_the_complement_are_told() -> None:
    targets = chosen()
    offsets = targets - np.arange(len(targets))
    assert read_map(-offsets, VOCAB, mask_of(targets)).mask_relation == "negated"
    assert read_map(offsets, VOCAB, ~mask_of(targets)).mask_relation == "complement"


def test_a_mask_that_is_no_such_thing_is_not_called_one() -> None:
    targets = chosen()
    offsets = targets - np.arange(len(targets))
    one_more, other = mask_of(targets), np.roll(mask_of(targets)[::-1], 37)
    one_more[VOCAB - 1] = True
    run = np.zeros(VOCAB, dtype=bool)
    run[:120] = True
    for mask in (one_more, other, run, None, np.zeros(VOCAB, dtype=bool), np.ones(VOCAB, dtype=bool)):
        assert read_map(offsets, VOCAB, mask).mask_relation is None
    # A run of ids is any other run, moved.
    assert read_map(np.full(120, 40), VOCAB, run).mask_relation is None


@given(st.lists(st.integers(-(2**40), 2**40), max_size=30), st.lists(st.booleans(), max_size=40))
def test_any_numbers_at_all_raise_nothing(stored: list[int], mask: list[bool]) -> None:
    marks = np.flatnonzero(np.array(mask, dtype=bool))
    assert relation_to_mask(np.array(stored, dtype=np.int64), marks, len(mask))[0] in (
        None, "moved", "negated", "complement",
    )  # fmt: skip


# --- what is no map of the three conventions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "start", "fills"),
    [
        ([7] * 4, 60, True),
        ([60, 61, 62, 63], 60, True),
        ([3, 9, 1, 30], 60, True),
        ([100, 180, 120, 190], 60, False),
        ([100], 63, False),
        ([63], 63, True),
        ([7] * 40, 24, False),
    ],
)
def test_what_fills_a_map_up(tail: list[int], start: int, fills: bool) -> None:
    ids = np.array([*range(start), *tail], dtype=np.int64)
    assert fills_up(ids, start) == fills
    assert not fills_up(np.concatenate([ids, [500]]), start)
