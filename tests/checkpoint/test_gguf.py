"""The header of GGUF files: what is kept, what is damage, and that nothing in a file makes the reader raise or hang."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
from builder.gguf import gguf_file
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.gguf import GGUF_ENTRIES, GGUF_LIST, GgufHeader, read_gguf
from ckptdoctor.errors import CannotExamineError

KEYS = st.text(min_size=1, max_size=20)
VALUES = st.one_of(
    st.integers(0, 2**32 - 1), st.booleans(), st.text(max_size=30), st.lists(st.integers(0, 2**32 - 1), max_size=9)
)


def read(data: bytes) -> GgufHeader:
    return read_gguf(io.BytesIO(data), "draft.gguf", len(data))


def detail(data: bytes) -> str:
    """What is said of a damaged file."""
    (fault,) = read(data).faults
    assert (fault.kind, fault.file) == ("gguf_damaged", "draft.gguf")
    return fault.detail


@given(st.dictionaries(KEYS, VALUES, max_size=8), st.integers(0, 5))
def test_what_a_writer_puts_in_is_what_is_read(metadata: dict[str, Any], tensors: int) -> None:
    header = read(gguf_file({"general.architecture": "dflash", **metadata}, tensors))
    assert header.faults == ()
    assert header.architecture == metadata.get("general.architecture", "dflash") or not isinstance(
        metadata["general.architecture"], str
    )
    assert (header.version, header.tensor_count) == (3, tensors)
    assert header.keys == {"general.architecture", *metadata}
    assert all(header.metadata[key] == value for key, value in metadata.items())


def test_a_vocabulary_is_passed_over() -> None:
    tokens = [f"token {i}" for i in range(20_000)]
    header = read(gguf_file({"tokenizer.ggml.tokens": tokens, "dflash.target_layers": [1, 2]}))
    assert header.faults == ()
    assert header.keys == {"tokenizer.ggml.tokens", "dflash.target_layers"}
    assert header.metadata == {"dflash.target_layers": [1, 2]}


def test_a_long_list_of_numbers_is_passed_over() -> None:
    header = read(gguf_file({"scores": list(range(GGUF_LIST + 1)), "after": 7}))
    assert (header.faults, header.metadata) == ((), {"after": 7})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "ends inside"),
        (b"GGUX" + bytes(40), "does not begin"),
        (gguf_file({}, version=1), "version 1"),
        (gguf_file({}, version=4), "version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "other order of bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "announces 1152921504606846976 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, GGUF_ENTRIES + 1), "metadata entries"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "ends inside"),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 3) + b"key" + struct.pack("<IIQ", 9, 8, 2**61),
            "longer than the file",
        ),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 3) + b"key" + struct.pack("<IIQ", 9, 9, 1), "list of type 9"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 3) + b"key" + struct.pack("<I", 99), "value of type 99"),
        (gguf_file({"a": 1, "b": 2}).replace(b"b", b"a", 1), "stands twice"),
        (gguf_file({"general.architecture": "dflash"}, cut=1), "cut short"),
    ],
)
def test_damage_is_named(data: bytes, said: str) -> None:
    assert said in detail(data)


@given(st.integers(0, 400))
def test_every_cut_of_a_file_is_seen(kept: int) -> None:
    whole = gguf_file({"general.architecture": "eagle3", "eagle3.target_layers": [2, 16, 29], "general.name": "x" * 40})
    assert bool(read(whole[:kept]).faults) == (kept < len(whole))


@given(st.binary(max_size=300))
def test_no_content_makes_the_reader_raise(data: bytes) -> None:
    read(data)
    read(b"GGUF" + struct.pack("<I", 3) + data)


def test_a_folder_with_a_gguf_file_alone_is_opened(tmp_path: Path) -> None:
    (tmp_path / "draft.gguf").write_bytes(gguf_file({"general.architecture": "dflash"}))
    checkpoint = open_checkpoint(str(tmp_path))
    assert (checkpoint.kind, checkpoint.files, checkpoint.names_sound) == ("other", (), False)
    assert [file.format for file in checkpoint.foreign] == ["gguf"]
    assert open_checkpoint(str(tmp_path / "draft.gguf")).foreign == checkpoint.foreign


@pytest.mark.parametrize(
    ("names", "formats"),
    [
        (["model.onnx", "model.onnx_data"], ["onnx"]),
        (["openvino_model.xml", "openvino_model.bin"], ["openvino"]),
        (["weights.npz"], ["npz"]),
        (["__0_0.distcp"], ["distributed"]),
    ],
)
def test_weights_of_other_engines_are_told_and_not_read(tmp_path: Path, names: list[str], formats: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"whatever")
    assert [file.format for file in open_checkpoint(str(tmp_path)).foreign] == formats


def test_a_folder_of_training_states_says_where_the_weights_are(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"state_{number}").mkdir()
        (tmp_path / f"state_{number}" / "model.safetensors").write_bytes(b"")
    (tmp_path / "logs").mkdir()
    with pytest.raises(CannotExamineError, match="weights in state_1 and state_2"):
        open_checkpoint(str(tmp_path))
