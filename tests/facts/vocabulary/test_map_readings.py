"""The verdict on a map is the set of readings that fit it, whatever its size and order."""

from __future__ import annotations

import numpy as np
import pytest
from generated_maps import VOCAB, Generated, cases, fitting, maps
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.vocabulary.id_list import outside_of, repeats_of
from ckptdoctor.facts.vocabulary.map_readings import MapReading, read_map

CASES = list(cases())


def read(case: Generated) -> MapReading:
    mask = None if case.mask is None else np.array(case.mask, dtype=bool)
    return read_map(np.array(case.stored, dtype=np.int64), max(case.size, len(case.mask or ())), mask)


def test_there_are_a_few_hundred_of_every_kind() -> None:
    kinds = [case.kind for case in CASES]
    assert len(CASES) > 400
    assert {kind: kinds.count(kind) > 2 for kind in set(kinds)} == dict.fromkeys(kinds, True)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_the_set_of_readings_that_fit(case: Generated) -> None:
    found = read(case)
    assert set(found.readings) == case.fits
    assert list(found.readings) == sorted(found.readings)
    assert found.verdict in case.verdicts
    assert found.padding == case.padding
    if case.order is not None and found.verdict == case.kind:
        assert found.order == case.order
    # What t2d bears out is the one reading, and the verdict speaks for a reading that fits.
    assert found.confirmed is None or found.confirmed in case.fits
    speaks = {"right": 1, "absolute": 0, "offset_twice": 2, "stale_t2d": 1, "zeros_first": 1}.get(found.verdict)
    assert speaks is None or speaks in case.fits
    if found.verdict == "open":
        assert len(case.fits) > 1


@pytest.mark.parametrize("case", [c for c in CASES if c.kind in ("repeated", "outside")], ids=lambda case: case.name)
def test_what_is_damaged_is_counted(case: Generated) -> None:
    found = read(case)
    assert found.violations == 1
    broken = found.repeated if case.kind == "repeated" else found.out_of_range
    assert broken is not None
    assert (broken.count, broken.draft_id) == (1, len(case.stored) // 2)


# --- properties -------------------------------------------------------------------------------------------------------


def seen(found: MapReading) -> tuple[object, ...]:
    return found.verdict, found.readings, found.confirmed, found.violations, found.order


@given(maps(), st.integers(0, 2))
def test_the_readings_of_any_map_are_those_of_brute_force(drawn: tuple[np.ndarray, np.ndarray | None], k: int) -> None:
    targets, mask = drawn
    stored = targets - k * np.arange(len(targets))
    found = read_map(stored, VOCAB, mask)
    assert set(found.readings) == fitting(stored.tolist(), None if mask is None else mask.tolist(), VOCAB)
    if mask is not None:
        assert found.confirmed == k


@given(st.lists(st.integers(-40, 60), max_size=30), st.lists(st.booleans(), min_size=40, max_size=40) | st.none())
def test_any_numbers_at_all_have_the_readings_of_brute_force(stored: list[int], mask: list[bool] | None) -> None:
    t2d = None if mask is None else np.array(mask)
    found = read_map(np.array(stored, dtype=np.int64), 40, t2d)
    # A k beyond 2 that t2d bears out is no reading of the three.
    assert set(found.readings) == fitting(stored, mask, 40)


@given(maps(), st.integers(1, 500))
def test_a_map_of_ids_further_up_is_as_right(drawn: tuple[np.ndarray, np.ndarray | None], shift: int) -> None:
    targets, mask = drawn
    offsets = targets - np.arange(len(targets))
    moved = None if mask is None else np.concatenate([np.zeros(shift, dtype=bool), mask])
    before, after = read_map(offsets, VOCAB, mask), read_map(offsets + shift, VOCAB + shift, moved)
    assert before.verdict in ("right", "zeros_first", "zeros_undecided")  # 0, 1, 2 … are stored as zeros
    assert after.verdict == "right"
    assert before.confirmed == after.confirmed
    assert before.order == after.order


@given(maps(), st.integers(0, 2), st.integers(1, 300))
def test_a_longer_mask_of_the_same_marks_changes_nothing(
    drawn: tuple[np.ndarray, np.ndarray | None], k: int, more: int
) -> None:
    targets, mask = drawn
    if mask is None:
        mask = np.zeros(VOCAB, dtype=bool)
        mask[targets] = True
    stored = targets - k * np.arange(len(targets))
    padded = np.concatenate([mask, np.zeros(more, dtype=bool)])
    # A larger vocabulary may hold ids that left the smaller one, so `violations` may fall.
    assert seen(read_map(stored, VOCAB, mask))[:3] == seen(read_map(stored, VOCAB + more, padded))[:3]
    last = int(targets.max()) + 1
    assert seen(read_map(stored, VOCAB, mask)) == seen(read_map(stored, VOCAB, mask[:last]))


@given(maps(), st.randoms(use_true_random=False))
def test_target_ids_in_another_order_of_rows_are_as_right(
    drawn: tuple[np.ndarray, np.ndarray | None], chance: object
) -> None:
    targets, mask = drawn
    mixed = targets.copy()
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    index = np.arange(len(targets))
    for k in (0, 1, 2):
        before, after = (read_map(t - k * index, VOCAB, mask) for t in (targets, mixed))
        if mask is not None:
            assert before.confirmed == after.confirmed == k
            assert before.readings == after.readings
        assert k in before.readings
        assert k in after.readings


@given(st.lists(st.integers(-5, 30), max_size=40), st.sampled_from([20, 2**40]))
def test_repeated_and_strange_ids_are_counted_as_by_hand(ids: list[int], size: int) -> None:
    targets = np.array(ids, dtype=np.int64)
    first: dict[int, int] = {}
    again = [(i, t) for i, t in enumerate(ids) if 0 <= t < size and first.setdefault(t, i) != i]
    for found in (repeats_of(targets, size), repeats_of(np.where(targets < 0, targets, targets + 2**30), size + 2**30)):
        assert (found is None) == (not again)
        if found is not None and found.target_id < 2**29:
            assert (found.count, found.draft_id, found.target_id) == (len(again), *again[0])
            assert found.other == first[again[0][1]]
    outside = [i for i, t in enumerate(ids) if not 0 <= t < size]
    strange = outside_of(targets, size)
    assert (strange is None) == (not outside)
    assert strange is None or (strange.count, strange.draft_id) == (len(outside), outside[0])
