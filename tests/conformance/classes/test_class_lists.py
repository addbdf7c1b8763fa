"""Rows of class lists: how they are made of readings, written, read back and compared."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.conformance import sources
from tests.conformance.class_lists import Reading, differences, holding, rows, text


def reading(release: str, names: str, captures: str = "", types: str = "llama") -> Reading:
    lists = {
        "registered": frozenset(names.split()),
        "captures.eagle3": frozenset(captures.split()),
        "forwarding": frozenset[str](),
        "model_types": frozenset(types.split()),
    }
    return Reading(release, lists, ("5.0.0",), "==5.0.0")


HISTORY = [reading("0.9.0", "A B"), reading("0.10.0", "B C", "C"), reading("0.11.0", "A B C D", "C")]


def test_rows_gather_what_came_and_went_together() -> None:
    assert rows(HISTORY, "registered") == [
        {"from": "0.9.0", "until": "0.10.0", "names": ["A"]},
        {"from": "0.9.0", "names": ["B"]},
        {"from": "0.10.0", "names": ["C"]},
        {"from": "0.11.0", "names": ["A", "D"]},
    ]
    for one in HISTORY:
        assert holding(rows(HISTORY, "registered"), one.release) == one.lists["registered"]


def test_what_is_written_is_read_back() -> None:
    odd = [reading("0.9.0", "A " + " ".join(f"Name{i:03}" for i in range(60)), types="llama no unlimited-ocr 5e3 null")]
    written = text(odd)
    loaded = yaml.safe_load(written)
    assert loaded["read"] == ["0.9.0"]
    assert loaded["forwarding"] == []
    assert holding(loaded["registered"], "0.9.0") == odd[0].lists["registered"]
    assert holding(loaded["model_types"], "0.9.0") == {"llama", "no", "unlimited-ocr", "5e3", "null"}
    assert loaded["transformers"] == [{"from": "0.9.0", "read": ["5.0.0"], "asked_for": "==5.0.0"}]
    assert max(map(len, written.splitlines())) <= 120


def test_differences_are_named_in_both_directions() -> None:
    data = yaml.safe_load(text(HISTORY))
    assert differences(data, HISTORY[-1]) == []
    newer = reading("0.12.0", "A B D E", "D", types="llama new")
    assert differences(data, newer) == [
        "  registered: added: E",
        "  registered: removed: C",
        "  captures.eagle3: added: D",
        "  captures.eagle3: removed: C",
        "  model_types: added: new",
    ]


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_a_wheel_is_read_through_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("thing/__init__.py", "A = 1\n")
        out.writestr("thing/kernel.so", bytes(1000))
        out.writestr("thing-1.0.dist-info/METADATA", "Name: thing\nRequires-Dist: transformers==5.0.0\n")
        out.writestr("../outside.py", "")
    monkeypatch.setattr(sources, "BLOCK", block)
    monkeypatch.setattr(sources, "address", lambda *_: wheel.as_uri())
    monkeypatch.setenv("CKPTDOCTOR_CONFORMANCE_CACHE", str(tmp_path / "cache"))
    made = sources.folder("thing", "1.0")
    assert sorted(p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()) == [
        ".finished",
        "thing-1.0.dist-info/METADATA",
        "thing/__init__.py",
    ]
    assert (made / "thing/__init__.py").read_text(encoding="utf-8") == "A = 1\n"
    assert "transformers==5.0.0" in sources.metadata(made)
    wheel.unlink()
    assert sources.folder("thing", "1.0") == made


def test_a_remote_file_reads_like_a_local_one(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    remote, local = sources.RemoteFile(path.as_uri()), io.BytesIO(content)
    for offset, whence, size in ((0, 0, 5), (-100, 2, 50), (3, 1, 2000), (2500, 0, 100), (0, 0, -1)):
        assert remote.seek(offset, whence) == local.seek(offset, whence)
        assert remote.read(size) == local.read(size)
