"""Scans of drafts that have a map of every kind: no right one is accused, and every wrong one is."""

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
from generated_maps import VOCAB, Generated, cases, maps
from hypothesis import given
from hypothesis import strategies as st
from recipe_cases import SHARED, TRAINERS, need_torch

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.facts.vocabulary.map_readings import MapReading, read_map
from ckptdoctor.repair.fixing import fix
from ckptdoctor.scanning import scan

CASES = list(cases())


# --- a scan of a draft that has the map -------------------------------------------------------------------------------


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


# --- properties -------------------------------------------------------------------------------------------------------


def seen(found: MapReading) -> tuple[object, ...]:
    return found.verdict, found.readings, found.confirmed, found.violations, found.order


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


# --- what is no map of the three conventions --------------------------------------------------------------------------


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


# --- maps that trainers wrote -----------------------------------------------------------------------------------------


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
