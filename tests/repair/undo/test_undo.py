"""The way back: byte for byte from a true receipt, and nothing at all from one that was tampered with."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recipe_cases import RECIPES, Built
from repair_drafts import fingerprint

from ckptdoctor.errors import CkptdoctorError, UsageError
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.undo import undo

Receipt = dict[str, Any]


@pytest.fixture
def copy(built: Built, tmp_path: Path) -> Path:
    """A repaired copy of a draft whose map held target ids."""
    out = tmp_path / "copy"
    fix(built.path(RECIPES["d2t-absolute"]), out)
    return out


def edited(copy: Path, change: Callable[[Receipt], None]) -> None:
    path = copy / RECEIPT_NAME
    receipt = json.loads(path.read_text(encoding="utf-8"))
    change(receipt)
    path.write_text(json.dumps(receipt), encoding="utf-8")


def weights(receipt: Receipt) -> Receipt:
    row: Receipt = next(f for f in receipt["undo"]["files"] if f["name"] == "model.safetensors")
    return row


def kept(receipt: Receipt) -> Receipt:
    piece: Receipt = next(p for p in weights(receipt)["pieces"] if "kept" in p)
    return piece


def test_the_original_comes_back_byte_for_byte(copy: Path, built: Built, tmp_path: Path) -> None:
    source = built.path(RECIPES["d2t-absolute"])
    before = fingerprint(copy)
    restored = undo(copy, tmp_path / "back")
    assert restored.unproven == ()
    assert fingerprint(copy) == before
    old, new = fingerprint(source), fingerprint(tmp_path / "back")
    assert {n: row[-1] for n, row in old.items()} == {n: row[-1] for n, row in new.items()}


def test_two_repairs_are_undone_one_after_the_other(built: Built, tmp_path: Path) -> None:
    source = built.path(RECIPES["d2t-absolute"])
    first, second, back, origin = (tmp_path / name for name in ("first", "second", "back", "origin"))
    fix(source, first)
    config = json.loads((first / "config.json").read_text(encoding="utf-8"))
    config["draft_vocab_size"] = str(config["draft_vocab_size"])
    (first / "config.json").write_text(json.dumps(config), encoding="utf-8")
    fix(first, second)
    rows = json.loads((second / RECEIPT_NAME).read_text(encoding="utf-8"))["treatments"]
    assert [row["treatment"] for row in rows] == ["map-to-offsets", "plain-value"]
    undo(second, back)
    assert {n: r[-1] for n, r in fingerprint(back).items()} == {n: r[-1] for n, r in fingerprint(first).items()}
    # The first copy was changed by hand after its repair, and that is told.
    with pytest.raises(CkptdoctorError, match=r"config.json .*was changed after its repair|gone or shorter"):
        undo(back, origin)
    assert not origin.exists()


def test_a_folder_without_a_receipt_is_no_copy(built: Built, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(built.path(RECIPES["d2t-absolute"]), tmp_path / "back")


def test_a_changed_copy_is_noticed(copy: Path, tmp_path: Path) -> None:
    path = copy / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(CkptdoctorError, match="was changed after its repair"):
        undo(copy, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_cut_copy_is_noticed(copy: Path, tmp_path: Path) -> None:
    path = copy / "model.safetensors"
    os.truncate(path, path.stat().st_size - 10)
    with pytest.raises(CkptdoctorError, match="gone or shorter"):
        undo(copy, tmp_path / "back")


def leave(_: Receipt) -> None:
    return None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: weights(r).update(name="../outside"), id="path out of the folder"),
        pytest.param(lambda r: weights(r).update(name="/tmp/outside"), id="absolute path"),
        pytest.param(lambda r: weights(r).update(name="a//b"), id="empty part"),
        pytest.param(lambda r: weights(r).update(name="."), id="the folder itself"),
        pytest.param(lambda r: weights(r).update(name="config.json/x"), id="a file as a folder"),
        pytest.param(lambda r: weights(r).update(name="config.json"), id="the same name twice"),
        pytest.param(lambda r: weights(r).update(size=3), id="another size"),
        pytest.param(lambda r: weights(r).update(sha256="0" * 64), id="another digest"),
        pytest.param(lambda r: weights(r).update(mtime_ns=2**80), id="a time beyond all times"),
        pytest.param(
            lambda r: weights(r)["pieces"].append({"from": "../x", "start": 0, "end": 1}), id="a file elsewhere"
        ),
        pytest.param(lambda r: weights(r)["pieces"][-1].update(end=10**18), id="a range past the end"),
        pytest.param(lambda r: weights(r)["pieces"][-1].update({"from": RECEIPT_NAME, "start": -1}), id="below zero"),
        pytest.param(lambda r: kept(r).update(kept=["!!!!"]), id="no base64"),
        pytest.param(lambda r: kept(r).update(kept=[base64.b64encode(b"no zlib").decode()]), id="no zlib"),
        pytest.param(lambda r: kept(r).update(length=10**15), id="a length beyond all"),
        pytest.param(
            lambda r: kept(r).update(kept=[base64.b64encode(zlib.compress(bytes(10**8))).decode()]), id="a bomb"
        ),
        pytest.param(lambda r: r["undo"].update(folders=["../../x"]), id="a folder outside"),
        pytest.param(lambda r: r.pop("undo"), id="no way back"),
        pytest.param(lambda r: r["undo"].update(reversible=False), id="not reversible"),
        pytest.param(lambda r: r.update(schema_version=2), id="another version"),
        pytest.param(lambda r: r["undo"]["files"].append({"lost": 1}), id="a row of another form"),
        pytest.param(lambda r: weights(r)["pieces"].append({"lost": 5}), id="lost bytes in a reversible one"),
    ],
)
def test_a_receipt_that_was_tampered_with_writes_nothing(copy: Path, tmp_path: Path, change: Any) -> None:
    edited(copy, change)
    with pytest.raises(CkptdoctorError) as caught:
        undo(copy, tmp_path / "back")
    assert str(caught.value).count("\n") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy"]


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"treatments": 3}', "[" * 100_000])
def test_a_receipt_that_is_none_stops_undo_and_repair(copy: Path, tmp_path: Path, text: str) -> None:
    (copy / RECEIPT_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="damaged"):
        undo(copy, tmp_path / "back")
    outcome = fix(copy, tmp_path / "again")
    assert outcome.plan.steps == ()


def test_setuid_of_a_receipt_is_not_taken_over(copy: Path, tmp_path: Path) -> None:
    edited(copy, lambda r: weights(r).update(mode=0o4777))
    undo(copy, tmp_path / "back")
    assert (tmp_path / "back" / "model.safetensors").stat().st_mode & 0o7777 == 0o777
