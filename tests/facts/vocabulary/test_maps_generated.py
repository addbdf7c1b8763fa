"""The verdict on a map is the set of readings that fit it, whatever its size and order; no right map is accused."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from builder.container import encode
from builder.dialects import make
from builder.draft import Tensor
from builder.values import bools, decode, integers
from generated_maps import Generated, cases, fitting
from hypothesis import given
from hypothesis import strategies as st
from recipe_cases import SHARED, TRAINERS, need_torch

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.facts.vocabulary.id_list import fills_up, outside_of, repeats_of
from ckptdoctor.facts.vocabulary.map_readings import MapReading, read_map
from ckptdoctor.repair.fixing import fix
from ckptdoctor.scanning import scan

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


# --- a scan of a draft that has the map ----------------------------------------------------------------------------


def draft_with(
    folder: Path, stored: np.ndarray, mask: np.ndarray | None, size: int, rows: int, **tensors: Tensor
) -> Path:
    """A SpecForge draft (Model-Optimizer without a mask) with this map and `rows` draft ids, written to `folder`."""
    dialect = "specforge-eagle3" if mask is not None else "model-optimizer-eagle3"
    draft = make(
        dialect, {"vocab": size, "draft_vocab": rows, "hidden": 16, "intermediate": 16, "heads": 2, "kv_heads": 1}
    )
    draft.tensors["d2t"] = integers(stored)
    if mask is not None:
        draft.tensors["t2d"] = bools(mask)
    draft.tensors |= tensors
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(encode(draft.tensors, {"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(draft.config), encoding="utf-8")
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "config.json").write_text(json.dumps(draft.target), encoding="utf-8")
    return folder


def loud(folder: Path, *, target: bool = True) -> set[str]:
    """The vocabulary rules that give more than a note."""
    found = scan(folder, target=folder / "target" if target else None).findings
    return {f.rule for f in found if f.rule.startswith("VOC") and f.severity.value != "note"}


RIGHT = [c for c in CASES if c.right and len(c.stored) > 1 and c.size <= 4096]
WRONG = {
    "absolute": "VOC001",
    "offset_twice": "VOC002",
    "stale_t2d": "VOC007",
    "repeated": "VOC003",
    "outside": "VOC004",
}


def scanned(case: Generated, folder: Path) -> set[str]:
    mask = None if case.mask is None else np.array(case.mask, dtype=bool)
    return loud(draft_with(folder, np.array(case.stored, dtype=np.int64), mask, case.size, len(case.stored)))


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_no_right_map_is_accused(case: Generated, tmp_path: Path) -> None:
    assert scanned(case, tmp_path) == set()


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kind in WRONG and c.size == 1000 and c.mask is not None], ids=lambda case: case.name
)
def test_every_wrong_map_is_accused_of_what_was_done(case: Generated, tmp_path: Path) -> None:
    assert scanned(case, tmp_path) == {WRONG[case.kind]}


# --- properties ---------------------------------------------------------------------------------------------------

VOCAB = 1000


@st.composite
def maps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray | None]:
    """Distinct target ids of a vocabulary of 1000 in any order, and the mask of them or none."""
    count = draw(st.integers(2, 120))
    targets = draw(st.lists(st.integers(0, VOCAB - 1), min_size=count, max_size=count, unique=True))
    if draw(st.booleans()):
        targets.sort()
    mask = np.zeros(VOCAB, dtype=bool)
    mask[targets] = True
    return np.array(targets, dtype=np.int64), mask if draw(st.booleans()) else None


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


@given(maps(), st.sampled_from(["I32", "I64"]), st.sampled_from(["BOOL", "U8", "I64", "I32", "F32"]), st.integers(0, 2))
def test_a_map_of_another_dtype_means_the_same(
    drawn: tuple[np.ndarray, np.ndarray | None], dtype: str, mask_dtype: str, k: int
) -> None:
    targets, mask = drawn
    stored = targets - k * np.arange(len(targets))
    with TemporaryDirectory() as name:
        tensors = {"d2t": integers(stored, dtype)}
        if mask is not None:
            tensors["t2d"] = Tensor(mask_dtype, mask.shape, mask.astype(_CODES[mask_dtype]).tobytes())
        folder = draft_with(Path(name), stored, mask, VOCAB, len(stored), **tensors)
        vocab = describe(open_checkpoint(str(folder)), None).vocab
        assert vocab.map is not None
        assert seen(vocab.map) == seen(read_map(stored, VOCAB, mask))
        if k == 1 and mask is not None:
            assert loud(folder, target=False) == set()


_CODES = {"BOOL": "u1", "U8": "u1", "I64": "<i8", "I32": "<i4", "F32": "<f4"}


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


# --- what is no map of the three conventions -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [-1, 3])
def test_an_index_subtracted_more_often_is_told_and_never_called_offset_twice(k: int, tmp_path: Path) -> None:
    targets = np.sort(np.random.default_rng(5).permutation(1000)[:120])
    targets[-1] = 999
    mask = np.zeros(1000, dtype=bool)
    mask[targets] = True
    stored = targets - k * np.arange(120)
    found = read_map(stored, 1000, mask)
    assert (found.verdict, found.confirmed) == ("damaged", k)
    folder = draft_with(tmp_path, stored, mask, 1000, 120)
    told = [f for f in scan(folder, target=folder / "target").findings if f.rule in ("VOC003", "VOC004")]
    assert told
    assert all(f"d2t[i] + {k} * i" in (f.advice or "") for f in told)


def test_a_mask_of_more_than_two_values_decides_nothing(tmp_path: Path) -> None:
    targets = np.sort(np.random.default_rng(5).permutation(1000)[:120])
    places = np.full(1000, -1)
    places[targets] = np.arange(120)
    right = targets - np.arange(120)
    folder = draft_with(tmp_path, right, np.zeros(1000, dtype=bool), 1000, 120, t2d=integers(places))
    vocab = describe(open_checkpoint(str(folder)), None).vocab
    assert (vocab.verdict, vocab.confirmed) == ("right", None)


def test_a_full_vocabulary_below_a_padded_target_is_the_identity(tmp_path: Path) -> None:
    for mask in (None, np.arange(1024) < 1000):
        folder = draft_with(tmp_path / str(mask is None), np.zeros(1000, dtype=np.int64), mask, 1000, 1000)
        target = json.loads((folder / "target" / "config.json").read_text(encoding="utf-8")) | {"vocab_size": 1024}
        (folder / "target" / "config.json").write_text(json.dumps(target), encoding="utf-8")
        assert loud(folder) == set()


def test_a_head_of_more_rows_than_the_map_is_told_as_padding(tmp_path: Path) -> None:
    targets = np.sort(np.random.default_rng(5).permutation(1000)[:120])
    folder = draft_with(tmp_path, targets - np.arange(120), None, 1000, 128)
    found = {f.rule: f for f in scan(folder, target=folder / "target").findings}
    assert "8 rows more" in (found["VOC013"].advice or "")
    assert describe(open_checkpoint(str(folder)), None).vocab.head_padding == 8


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


# --- maps that trainers wrote -------------------------------------------------------------------------------------


def trainers_drafts() -> list[Path]:
    folders = [*TRAINERS.iterdir(), *((SHARED / "drafts").iterdir() if (SHARED / "drafts").is_dir() else ())]
    wrong = ("derived_sf_d2t_absolute", "eagle_ref_eagle3_zero_to_fp32_full", "sf_eagle3_llama_rawstate")
    return sorted(p for p in folders if (p / "config.json").is_file() and p.name not in wrong)


@pytest.mark.parametrize("folder", trainers_drafts(), ids=lambda p: p.name)
def test_what_a_trainer_wrote_is_right_and_comes_back_after_the_index_was_subtracted_again(
    folder: Path, tmp_path: Path
) -> None:
    if not list(folder.glob("*.safetensors")):
        need_torch()
    vocab = describe(open_checkpoint(str(folder)), None).vocab
    if vocab.map is None:
        pytest.skip("this draft has no d2t")
    assert vocab.verdict in ("right", "identity")
    if vocab.verdict == "identity" or not (folder / "model.safetensors").is_file():
        return
    weights = folder / "model.safetensors"
    length = int.from_bytes(weights.read_bytes()[:8], "little")
    header = json.loads(weights.read_bytes()[8 : 8 + length])
    data = weights.read_bytes()[8 + length :]
    entries = {n: e for n, e in header.items() if n != "__metadata__"}
    tensors = {n: Tensor(e["dtype"], tuple(e["shape"]), data[slice(*e["data_offsets"])]) for n, e in entries.items()}
    name = next(n for n in tensors if n.rpartition(".")[2] == "d2t")
    right = decode(tensors[name]).astype(np.int64)
    tensors[name] = integers(right - np.arange(len(right)), tensors[name].dtype)
    sick = tmp_path / "sick"
    sick.mkdir()
    (sick / "model.safetensors").write_bytes(encode(tensors, {"format": "pt"}))
    (sick / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert "VOC002" in {f.rule for f in scan(sick).findings}
    done = fix(sick, tmp_path / "well", select=("map-to-offsets",))
    assert done.written
    restored = open_checkpoint(str(tmp_path / "well"))
    assert np.array_equal(restored.integers(name), right)
