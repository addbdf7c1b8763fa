"""What counts as one draft for a loader."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.conformance.drafts.alike import alike


def draft(folder: Path, weight: bytes, ids: bytes, config: str = "{}", header: bytes | None = None) -> Path:
    (folder / "target").mkdir(parents=True)
    tensors = {
        "fc.weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "d2t": {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]},
    }
    text = json.dumps(tensors).encode() if header is None else header
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + weight + ids)
    (folder / "config.json").write_text(config, encoding="utf-8")
    (folder / "target" / "config.json").write_text("{}", encoding="utf-8")
    return folder


def test_the_values_of_weights_make_no_difference(tmp_path: Path) -> None:
    one, other = draft(tmp_path / "a", b"1234", b"12345678"), draft(tmp_path / "b", b"4321", b"12345678")
    (other / "target" / "model.safetensors").write_bytes(b"weights of the target")
    (other / "old").mkdir()
    (other / "old" / "config.json").write_text("{}", encoding="utf-8")
    assert alike([one, other]) == {one: one, other: one}


@pytest.mark.parametrize(
    "other",
    [
        {"ids": b"87654321"},
        {"config": '{"hidden_size": 64}'},
        {"weight": b"12345"},
        {"header": b'{"fc.weight": {"dtype": "BF16", "shape": [2]}}'},
        {"header": b"no JSON"},
    ],
)
def test_all_else_does(other: dict[str, bytes], tmp_path: Path) -> None:
    one = draft(tmp_path / "a", b"1234", b"12345678")
    two = draft(tmp_path / "b", **{"weight": b"1234", "ids": b"12345678", **other})  # type: ignore[arg-type]
    assert alike([one, two]) == {one: one, two: two}


def test_a_file_more_makes_a_difference(tmp_path: Path) -> None:
    one, two = draft(tmp_path / "a", b"1234", b"12345678"), draft(tmp_path / "b", b"1234", b"12345678")
    (two / "hf_quant_config.json").write_text("{}", encoding="utf-8")
    assert alike([one, two]) == {one: one, two: two}


def test_values_of_a_file_that_is_no_safetensors_count(tmp_path: Path) -> None:
    one = draft(tmp_path / "a", b"1234", b"12345678", header=b"no JSON")
    two = draft(tmp_path / "b", b"4321", b"12345678", header=b"no JSON")
    assert alike([one, two]) == {one: one, two: two}
