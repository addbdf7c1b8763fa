"""Files that are not what their names say: the cause is told by the first bytes, whatever the name."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_files import LFS, sound

from ckptdoctor.checkpoint import open_checkpoint

STRANGE = [
    (LFS, "lfs_pointer", "git-lfs"),
    (b"\n <!DOCTYPE html>\n<html></html>", "", "web page"),
    (b"<HTML><HEAD>", "", "web page"),
    (b"\xef\xbb\xbf<html lang=en>", "", "web page"),
    (b"<?xml version='1.0'?><Error/>", "", "XML"),
    (b'{"error": "Invalid credentials"}', "", "JSON text"),
    (b"Entry not found", "", "this is a text"),
    (b"\x1f\x8b\x08\x00" + bytes(20), "", "gzip"),
    (b"\x28\xb5\x2f\xfd" + bytes(20), "", "zstd"),
    (b"GGUF\x03\x00\x00\x00" + bytes(20), "", "GGUF"),
    (bytes(64), "", "zeros"),
]


@pytest.mark.parametrize(("data", "kind", "cause"), STRANGE)
@pytest.mark.parametrize(
    ("name", "other"), [("model.safetensors", "not_safetensors"), ("pytorch_model.bin", "not_pytorch")]
)
def test_what_lies_in_place_of_weights_is_named(
    tmp_path: Path, name: str, other: str, data: bytes, kind: str, cause: str
) -> None:
    (tmp_path / name).write_bytes(data)
    (fault,) = open_checkpoint(str(tmp_path)).faults
    assert (fault.kind, fault.file) == (kind or other, name)
    assert cause in fault.detail


@pytest.mark.parametrize("name", ["pytorch_model.bin", "draft.pt"])
def test_a_safetensors_file_under_the_name_of_a_pickle_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(sound("fc.weight"))
    (fault,) = open_checkpoint(str(tmp_path)).faults
    assert fault.kind == "not_pytorch"
    assert "safetensors file with the wrong ending" in fault.detail


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_under_the_name_of_safetensors_is_named(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x80" + bytes([protocol]) + b"}q\x00." + bytes(20))
    (fault,) = open_checkpoint(str(tmp_path)).faults
    assert (fault.kind, "Python pickle" in fault.detail) == ("not_safetensors", True)


def test_a_sound_header_is_never_taken_for_something_else(tmp_path: Path) -> None:
    # 0x504b… as a length would be a zip archive; the brace in the ninth byte decides.
    for count in (1, 3, 200):
        (tmp_path / "model.safetensors").write_bytes(sound(*(f"weight.{i}" for i in range(count))))
        assert open_checkpoint(str(tmp_path)).faults == ()


def test_a_damaged_shard_is_not_said_to_lack_its_tensors(tmp_path: Path) -> None:
    from checkpoint_files import sharded

    sharded(tmp_path, {"model-00001-of-00002.safetensors": ["a"], "model-00002-of-00002.safetensors": ["b", "c"]})
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(LFS)
    assert [fault.kind for fault in open_checkpoint(str(tmp_path)).faults] == ["lfs_pointer"]


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (["model.safetensors", "model_1.safetensors"], ["second_model"]),
        (["model_1.safetensors", "model_2.safetensors"], ["shards_without_index"]),
        (["model.safetensors", "model-00001-of-00002.safetensors"], ["series_beside_whole"]),
        (["model-00001-of-00001.safetensors", "model-00002-of-00003.safetensors"], ["series_beside_whole"]),
        (["model-00001-of-00002.safetensors"], ["shard_missing"]),
        (["model-00001-of-00002.safetensors", "model-00003-of-00003.safetensors"],
         ["shard_missing", "shard_missing", "shards_without_index"]),
    ],
)  # fmt: skip
def test_files_of_two_exports_are_told_from_lost_shards(tmp_path: Path, names: list[str], kinds: list[str]) -> None:
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(sound(f"tensor.{number}"))
    assert sorted(fault.kind for fault in open_checkpoint(str(tmp_path)).faults) == kinds
