"""The container reader: every kind of damage with its exact place, and names that survive the round trip."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from checkpoint_files import LFS, container, entry, sound
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from ckptdoctor.checkpoint import container as module
from ckptdoctor.checkpoint.container import DTYPE_BITS, HEADER_LIMIT, Header, read_header
from ckptdoctor.checkpoint.faults import Fault, first_of_each


def read(data: bytes) -> Header:
    return read_header(io.BytesIO(data), "model.safetensors", len(data))


def the_fault(data: bytes) -> Fault:
    """The one fault of a damaged file."""
    header = read(data)
    (fault,) = header.faults
    assert fault.file == "model.safetensors"
    assert fault.line is None
    assert header.sound == (fault.kind == "data_past_end")
    return fault


F32 = entry("F32", [2], 0, 8)


def test_a_sound_file() -> None:
    header = read(container({"b": F32, "a": entry("BF16", [2, 3], 8, 20), "__metadata__": {"format": "pt"}}, bytes(20)))
    assert header.faults == ()
    assert header.sound
    assert header.metadata == {"format": "pt"}
    assert [(t.name, t.dtype, t.shape, t.elements) for t in header.tensors] == [
        ("b", "F32", (2,), 2),
        ("a", "BF16", (2, 3), 6),
    ]
    base = header.tensors[0].start
    assert base is not None
    assert [(t.start, t.end) for t in header.tensors] == [(base, base + 8), (base + 8, base + 20)]


def test_what_the_package_writes_is_read_with_the_same_places() -> None:
    arrays = {
        "one": np.arange(6, dtype=np.int64),
        "two": np.eye(3, dtype=np.float16),
        "none": np.zeros((0, 4), np.int8),
    }
    data = save(arrays, {"k": "v"})
    header = read(data)
    assert header.faults == ()
    assert {t.name: data[t.start : t.end] for t in header.tensors} == {k: v.tobytes() for k, v in arrays.items()}


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.none(), max_size=8))
def test_any_name_survives_the_round_trip(names: dict[str, None]) -> None:
    names.pop("__metadata__", None)
    data = save({name: np.zeros(1, np.uint8) for name in names})
    header = read(data)
    assert header.faults == ()
    assert {t.name for t in header.tensors} == set(names)


@pytest.mark.parametrize(
    "name", ["[bold]x[/bold]", "\x1b[2J", "a\nb", "\u202eevil", "модель", "😀", "", "__metadata", "../x"]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_odd_names_are_data(name: str, ascii_only: bool) -> None:
    header = read(container(json.dumps({name: F32}, ensure_ascii=ascii_only), bytes(8)))
    assert header.faults == ()
    assert header.tensors[0].name == name


@pytest.mark.parametrize(
    ("data", "kind", "expected", "found"),
    [
        (b"", "empty_file", None, None),
        (b"1234567", "header_past_end", 8, 7),
        ((2).to_bytes(8, "little"), "header_past_end", 10, 8),
        ((HEADER_LIMIT + 1).to_bytes(8, "little") + b"{}", "header_too_long", HEADER_LIMIT, HEADER_LIMIT + 1),
        (b"\xff" * 8, "header_too_long", HEADER_LIMIT, 2**64 - 1),
        (HEADER_LIMIT.to_bytes(8, "little") + b"{}", "header_past_end", HEADER_LIMIT + 8, 10),
        (LFS, "lfs_pointer", None, len(LFS)),
        (b"PK\x03\x04" + bytes(30), "not_safetensors", None, 34),
        (b"\x80\x02}q\x00." + bytes(30), "not_safetensors", None, 36),
        (b"<!DOCTYPE html><html>", "not_safetensors", None, 21),
        (b"<html><body>", "not_safetensors", None, 12),
        (b"GGUF\x03\x00\x00\x00" + bytes(9), "not_safetensors", None, 17),
        (b"\x1f\x8b\x08" + bytes(9), "not_safetensors", None, 12),
        (bytes(100), "not_safetensors", None, 100),
    ],
)
def test_what_is_no_container(data: bytes, kind: str, expected: int | None, found: int | None) -> None:
    fault = the_fault(data)
    assert (fault.kind, fault.offset, fault.expected, fault.found) == (kind, 0, expected, found)
    assert bool(fault.detail) == (kind in ("lfs_pointer", "not_safetensors"))


@pytest.mark.parametrize("magic", [b"GGUF", b"PK\x03\x04", b"\x80\x02"])
def test_a_length_that_spells_another_format_is_still_a_length(magic: bytes) -> None:
    """A long header whose length happens to start with such bytes is cut short, but not another format."""
    assert the_fault(magic.ljust(8, b"\0") + b"{}").kind in ("header_past_end", "header_too_long")


def test_a_file_that_shrinks_while_it_is_read() -> None:
    data = sound("a")
    (fault,) = read_header(io.BytesIO(data[:20]), "x", len(data)).faults
    assert (fault.kind, fault.found) == ("header_past_end", 20)


@pytest.mark.parametrize(
    ("header", "offset"),
    [
        (b"{", 9),
        (b"{}x", 10),
        (b"{}\0", 10),
        (b'{"a": nope}', 14),
        (b'{"a\xff": 1}', 11),
        (b'\xef\xbb\xbf{"__metadata__": {}}', 8),
        (rb'{"\ud800": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}', 9),
        (b'{"__metadata__":null, "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "x": NaN}}', 94),
    ],
)
def test_header_that_is_no_json(header: bytes, offset: int) -> None:
    fault = the_fault(container(header))
    assert (fault.kind, fault.offset) == ("header_json", offset)
    assert fault.detail
    assert "json_" not in fault.detail


@pytest.mark.parametrize("header", [b"[]", b"1", b'"a"', b"null", b"[{}]"])
def test_header_that_is_no_object(header: bytes) -> None:
    fault = the_fault(container(header))
    assert (fault.kind, fault.offset) == ("header_not_object", 8)


def test_duplicate_names() -> None:
    one = json.dumps({"a": F32})[1:-1]
    fault = the_fault(container("{" + ", ".join([one] * 3) + "}", bytes(8)))
    assert (fault.kind, fault.tensor, fault.offset, fault.count) == ("duplicate_name", "a", 8 + 1 + len(one) + 2, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', "not an object"),
        ('{"a": ["F32", [2], [0, 8]]}', "not an object"),
        ('{"a": null}', "not an object"),
        ('{"a": {"shape": [2], "data_offsets": [0, 8]}}', "dtype"),
        ('{"a": {"dtype": 1, "shape": [2], "data_offsets": [0, 8]}}', "dtype"),
        ('{"a": {"dtype": "F32", "data_offsets": [0, 8]}}', "shape"),
        ('{"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}', "shape"),
        ('{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}', "shape"),
        ('{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 8]}}', "shape"),
        ('{"a": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}}', "shape"),
        ('{"a": {"dtype": "F32", "shape": %s, "data_offsets": [0, 8]}}' % ([1] * 65), "64 dimensions"),
        ('{"a": {"dtype": "F32", "shape": [2]}}', "data_offsets"),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}', "data_offsets"),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}}', "data_offsets"),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [-0, 8]}}', "data_offsets"),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}', "ends before it begins"),
        ('{"a": {"dtype": "F32", "shape": [1099511627776, 1099511627776, 0], "data_offsets": [0, 8]}}', "64 bits"),
        ('{"a": {"dtype": "F32", "shape": [2305843009213693952], "data_offsets": [0, 8]}}', "64 bits"),
    ],
)
def test_entries_of_a_wrong_form(text: str, words: str) -> None:
    faults = read(container(text, bytes(8))).faults
    # The entry is not believed, so its bytes belong to nothing.
    assert [f.kind for f in faults] == ["header_entry", "trailing_bytes"]
    assert (faults[0].offset, faults[0].tensor) == (9, "a")
    assert words in faults[0].detail


def test_a_key_twice_in_one_entry() -> None:
    text = '{"a": {"dtype": "F32", "shape": [9], "shape": [2], "data_offsets": [0, 8]}}'
    fault = the_fault(container(text, bytes(8)))
    assert (fault.kind, fault.offset) == ("header_entry", 8 + text.rindex('"shape"'))
    assert "shape stands twice" in fault.detail


def test_unknown_dtype() -> None:
    fault = the_fault(container({"ok": F32, "a": entry("F128", [1], 8, 24)}, bytes(24)))
    assert (fault.kind, fault.tensor, fault.found) == ("unknown_dtype", "a", "F128")
    assert fault.offset == container({"ok": F32, "a": F32}).index(b'"a"')


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "expected", "detail"),
    [
        ("F32", [3], 8, 12, "F32 [3]"),
        ("BF16", [], 8, 2, "BF16 []"),
        ("I64", [0], 8, 0, "I64 [0]"),
        ("F4", [3], 2, 2, "F4 [3], which is no whole number of bytes"),
    ],
)
def test_size_mismatch(dtype: str, shape: list[int], size: int, expected: int, detail: str) -> None:
    fault = the_fault(container({"a": entry(dtype, shape, 0, size)}, bytes(size)))
    assert (fault.kind, fault.tensor, fault.offset) == ("size_mismatch", "a", 9)
    assert (fault.expected, fault.found, fault.detail) == (expected, size, detail)


def test_a_hole() -> None:
    data = container({"b": entry("F32", [2], 12, 20), "a": F32}, bytes(20))
    fault = the_fault(data)
    assert (fault.kind, fault.tensor, fault.offset, fault.found) == ("hole", "b", len(data) - 12, 4)


def test_a_hole_at_the_start() -> None:
    data = container({"a": entry("F32", [2], 1, 9)}, bytes(9))
    fault = the_fault(data)
    assert (fault.kind, fault.tensor, fault.offset, fault.found) == ("hole", "a", len(data) - 9, 1)


def test_an_overlap_names_both() -> None:
    data = container({"b": entry("F32", [2], 4, 12), "a": F32}, bytes(12))
    fault = the_fault(data)
    assert (fault.kind, fault.tensor, fault.other) == ("overlap", "b", "a")
    assert (fault.offset, fault.found) == (len(data) - 8, 4)


def test_an_empty_tensor_inside_another_overlaps_and_on_its_edge_does_not() -> None:
    inside = container({"a": F32, "z": entry("F32", [0], 4, 4)}, bytes(8))
    assert the_fault(inside).kind == "overlap"
    edges = {"a": F32, "y": entry("F32", [0], 0, 0), "z": entry("F32", [0], 8, 8)}
    assert read(container(edges, bytes(8))).faults == ()


def test_data_that_ends_too_early_keeps_names_and_counts_what_is_lost() -> None:
    data = sound("a", "b", "c")
    fault = the_fault(data[:-10])
    assert (fault.kind, fault.tensor, fault.count) == ("data_past_end", "b", 2)
    assert (fault.offset, fault.expected, fault.found) == (len(data) - 10, len(data), len(data) - 10)
    assert [t.name for t in read(data[:-10]).tensors] == ["a", "b", "c"]


def test_trailing_bytes() -> None:
    data = sound("a")
    fault = the_fault(data + b"xyz")
    assert (fault.kind, fault.offset, fault.expected, fault.found) == (
        "trailing_bytes",
        len(data),
        len(data),
        len(data) + 3,
    )


@pytest.mark.parametrize("metadata", [[], "x", 1, {"a": 1}, {"a": None}, {"a": {"b": "c"}}])
def test_metadata_that_is_no_text(metadata: Any) -> None:
    header = read(container({"__metadata__": metadata, "a": F32}, bytes(8)))
    assert [(f.kind, f.offset) for f in header.faults] == [("metadata_not_text", 9)]
    assert header.metadata == {}
    assert [t.name for t in header.tensors] == ["a"]


def test_no_metadata_is_fine() -> None:
    assert read(container({"__metadata__": None})).faults == ()


def test_too_many_tensors_are_counted_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAME_LIMIT", 2)
    assert read(sound("a", "b")).faults == ()
    fault = the_fault(sound("a", "b", "c"))
    assert (fault.kind, fault.offset, fault.expected, fault.found) == ("too_many_tensors", 8, 2, 3)
    hidden = container(sound("a", "b", "c")[8:-24].replace(b"data_offsets", rb"data\u005foffsets"), bytes(24))
    assert the_fault(hidden).kind == "too_many_tensors"


def test_a_million_faults_are_one_with_a_count() -> None:
    faults = [Fault("hole", "a", offset=i) for i in range(5)] + [Fault("hole", "b", count=3), Fault("hole", "b")]
    assert first_of_each(faults) == (Fault("hole", "a", offset=0, count=5), Fault("hole", "b", count=4))


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_every_dtype_has_its_size(dtype: str) -> None:
    size = DTYPE_BITS[dtype]
    assert read(container({"a": entry(dtype, [8], 0, size)}, bytes(size))).faults == ()
