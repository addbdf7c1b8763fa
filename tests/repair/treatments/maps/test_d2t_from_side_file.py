"""A lost map is made from a file beside the draft that holds it, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treatment_cases import Draft, answer, decode, draft_of, plan, write

from ckptdoctor.repair.edits import AddTensor


def without_maps(*lost: str) -> tuple[Draft, list[int], Draft]:
    """A draft without d2t (and `lost`), its target ids, and the healthy draft."""
    healthy = draft_of()
    offsets = decode(healthy.tensors["d2t"]).astype(np.int64)
    draft = draft_of()
    for name in ("d2t", *lost):
        del draft.tensors[name]
    return draft, (offsets + np.arange(len(offsets))).tolist(), healthy


def left(folder: Path, content: Any, name: str = "eagle_meta.json") -> Path:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize("meaning", ["selected_token_ids", "draft_token_ids", "hot_token_ids", "d2t"])
def test_both_maps_are_made_as_they_were(meaning: str, tmp_path: Path) -> None:
    draft, ids, healthy = without_maps("t2d")
    row = [token - i for i, token in enumerate(ids)] if meaning == "d2t" else ids
    folder = left(write(draft, tmp_path), {meaning: row, "epoch": 3})
    told = answer(folder, "VOC035")
    assert not isinstance(told, str)
    assert told.edits == (
        AddTensor("d2t", "I64", (128,), healthy.tensors["d2t"].data),
        AddTensor("t2d", "BOOL", (512,), healthy.tensors["t2d"].data),
    )
    assert told.safety == "unsafe"
    assert plan(folder).steps == ()
    assert plan(folder, unsafe=True).after.facts.vocab.verdict == "right"


def test_a_stored_mask_stays_and_must_agree(tmp_path: Path) -> None:
    draft, ids, healthy = without_maps()
    folder = left(write(draft, tmp_path), {"selected_token_ids": ids})
    told = answer(folder, "VOC035")
    assert not isinstance(told, str)
    assert told.edits == (AddTensor("d2t", "I64", (128,), healthy.tensors["d2t"].data),)
    others = [i for i in range(512) if i not in ids][:128]
    told = answer(left(folder, {"selected_token_ids": others}), "VOC035")
    assert isinstance(told, str)
    assert "name different target ids" in told


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda ids: {"selected_token_ids": ids[:100]}, "100 entries, and the head has 128 rows"),
        (lambda ids: {"selected_token_ids": [*ids[:-1], ids[0]]}, "no different ids of a vocabulary of 512"),
        (lambda ids: {"selected_token_ids": [*ids[:-1], 512]}, "no different ids of a vocabulary of 512"),
        (lambda ids: {"selected_token_ids": ids, "hot_token_ids": ids[::-1], "d2t": [400 - 3 * i for i in range(128)]},
         "hold different maps"),
        (lambda ids: {"selected_token_ids": [[i] for i in ids]}, "no list of target ids"),
        (lambda _: {"selected_token_ids": "many"}, "no list of target ids"),
        (lambda _: {"vocab": 512}, "no list of target ids"),
        (lambda _: list(range(0, 256, 2)), "does not say whether its entries are target ids or offsets"),
    ],
)  # fmt: skip
def test_nothing_is_made_of_what_is_no_map_of_this_head(content: Any, words: str, tmp_path: Path) -> None:
    draft, ids, _ = without_maps("t2d")
    told = answer(left(write(draft, tmp_path), content(ids)), "VOC035")
    assert isinstance(told, str)
    assert words in told


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    draft, _, _ = without_maps("t2d")
    folder = write(draft, tmp_path)
    (folder / "d2t.npy").write_bytes(b"\x93NUMPY\x01\x00nonsense")
    told = answer(folder, "VOC035")
    assert isinstance(told, str)
    assert "d2t.npy" in told


def test_an_array_of_numpy_is_read(tmp_path: Path) -> None:
    draft, ids, healthy = without_maps("t2d")
    folder = write(draft, tmp_path)
    np.save(folder / "d2t.npy", np.array([token - i for i, token in enumerate(ids)]))
    told = answer(folder, "VOC035")
    assert not isinstance(told, str)
    assert told.edits[0] == AddTensor("d2t", "I64", (128,), healthy.tensors["d2t"].data)
