"""The choice of ids for a draft vocabulary, and its map; counted again without our code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocab_targets import (
    plainly,
)

from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.tokencounts.token_counts import TokenCounts
from ckptdoctor.vocab import build_map
from ckptdoctor.vocab.building import counts_of_vocabulary, offsets_and_mask


@given(st.data())
def test_the_choice_is_that_of_a_plain_recount(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 5) | st.integers(0, 2**52), min_size=1, max_size=40))
    size = data.draw(st.integers(1, len(counts)))
    forced = data.draw(st.sets(st.integers(0, len(counts) - 1), max_size=size))
    wanted = plainly(counts, size, forced)
    array = np.array(counts, dtype=np.int64)
    assert build_map(array, size, forced).tolist() == wanted
    frequent = build_map(array, size, forced, order="frequency").tolist()
    assert sorted(frequent) == wanted
    assert frequent == sorted(wanted, key=lambda i: (-counts[i], i))


def test_ids_that_the_counts_do_not_reach_occur_never() -> None:
    assert build_map(np.array([1, 9]), 3, {7}, vocabulary=8).tolist() == [0, 1, 7]
    assert build_map(np.array([1, 9]), 8, vocabulary=8).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("size", "forced", "sentence"),
    [
        (5, set(), "a draft vocabulary of 5 ids: the target's has 4"),
        (0, set(), "a draft vocabulary of 0 ids"),
        (2, {0, 1, 2}, "a draft vocabulary of 2 ids has no room for the 3 that it must hold"),
        (2, {4}, "id 4 cannot be forced: the vocabulary has the ids 0 to 3"),
        (2, {-1}, "id -1 cannot be forced"),
    ],
)
def test_sizes_and_ids_that_do_not_fit(size: int, forced: set[int], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build_map(np.array([1, 2, 3, 4]), size, forced)
    with pytest.raises(UsageError, match="no order 'up'"):
        build_map(np.array([1]), 1, order="up")


def test_offsets_and_mask_say_the_same() -> None:
    offsets, mask = offsets_and_mask(np.array([3, 1, 6]), 8)
    assert offsets.tolist() == [3, 0, 4]
    assert np.flatnonzero(mask).tolist() == [1, 3, 6]


def test_counts_of_another_vocabulary_are_refused() -> None:
    def counts(values: list[int]) -> TokenCounts:
        return TokenCounts(np.array(values, dtype=np.int64), "c.json", "json")

    assert counts_of_vocabulary(counts([1, 2]), 4).tolist() == [1, 2, 0, 0]
    assert counts_of_vocabulary(counts([1, 2, 0, 0]), 2).tolist() == [1, 2]
    with pytest.raises(CannotExamineError, match=r"c\.json: counts of another vocabulary: id 3 occurs.*0 to 1"):
        counts_of_vocabulary(counts([1, 2, 0, 7]), 2)
    with pytest.raises(CannotExamineError, match="nothing to choose by"):
        counts_of_vocabulary(counts([0, 0]), 2)
