"""The verdict of the container reader against that of the `safetensors` package, file by file.

What the package accepts and we refuse is listed in `STRICTER`; nothing is the other way round.
"""

from __future__ import annotations

import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import container, entry
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from ckptdoctor.checkpoint.container import DTYPE_BITS, read_header


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oracle") / "model.safetensors"


def accepts(data: bytes, place: Path) -> bool:
    """Whether the package opens the file."""
    place.write_bytes(data)
    try:
        with safe_open(str(place), "np") as opened:
            opened.keys()
    except (SafetensorError, OSError, ValueError):
        return False
    return True


def ours(data: bytes) -> list[str]:
    return [fault.kind for fault in read_header(io.BytesIO(data), "x", len(data)).faults]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SHAPES = st.lists(st.integers(0, 4), max_size=3)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """A sound header, its tensors in any order in the file, and the bytes of its data."""
    header: dict[str, Any] = {}
    end = 0
    for name in draw(st.lists(NAMES, unique=True, max_size=5)):
        if name == "__metadata__":
            continue
        dtype = draw(st.sampled_from(sorted(DTYPE_BITS)))
        shape = draw(SHAPES)
        bits = DTYPE_BITS[dtype]
        for factor in shape:
            bits *= factor
        if bits % 8:
            continue
        header[name] = entry(dtype, shape, end, end + bits // 8)
        end += bits // 8
    order = draw(st.permutations(list(header)))
    header = {name: header[name] for name in order}
    if draw(st.booleans()):
        header["__metadata__"] = draw(st.dictionaries(NAMES, NAMES, max_size=2))
    return header, end


@given(layouts(), st.sampled_from([None, 1]), st.booleans(), st.integers(0, 9))
def test_every_sound_layout_is_sound(
    place: Path, layout: tuple[dict[str, Any], int], indent: int | None, ascii_only: bool, padding: int
) -> None:
    header, size = layout
    text = json.dumps(header, indent=indent, ensure_ascii=ascii_only) + " " * padding
    data = container(text, bytes(size))
    assert accepts(data, place)
    assert ours(data) == []


@given(layouts(), st.data())
def test_every_damaged_layout_gets_the_same_verdict(
    place: Path, layout: tuple[dict[str, Any], int], draw: st.DataObject
) -> None:
    header, size = layout
    names = [name for name in header if name != "__metadata__"]
    if names:
        name = draw.draw(st.sampled_from(names))
        part = draw.draw(st.sampled_from(["start", "end", "shape", "dtype", "drop"]))
        offsets = header[name]["data_offsets"]
        if part == "start":
            offsets[0] = max(0, offsets[0] + draw.draw(st.integers(-3, 3)))
        elif part == "end":
            offsets[1] = max(0, offsets[1] + draw.draw(st.integers(-3, 3)))
        elif part == "shape":
            header[name]["shape"] = draw.draw(SHAPES | st.lists(st.integers(0, 2**65), max_size=4))
        elif part == "dtype":
            header[name]["dtype"] = draw.draw(st.sampled_from([*sorted(DTYPE_BITS), "F128", "f32", ""]))
        else:
            del header[name]
    data = container(header, bytes(max(0, size + draw.draw(st.sampled_from([0, 0, 0, -1, 1])))))
    assert accepts(data, place) == (ours(data) == [])


ENTRY = '"dtype": "F32", "shape": [1], "data_offsets": [0, 4]'
STRICTER = {
    "the same name twice": f'{{"a": {{{ENTRY}}}, "a": {{{ENTRY}}}}}',
    "an entry as a list": '{"a": ["F32", [1], [0, 4]]}',
    "a dtype as an object": '{"a": {"dtype": {"F32": null}, "shape": [1], "data_offsets": [0, 4]}}',
    "an unknown key twice in an entry": f'{{"a": {{{ENTRY}, "x": 1, "x": 2}}}}',
    "the same key twice in the metadata": f'{{"a": {{{ENTRY}}}, "__metadata__": {{"k": "1", "k": "2"}}}}',
    "a number of more than 64 bits under an unknown key": f'{{"a": {{{ENTRY}, "x": {10**30}}}}}',
    "a number of more than 400 digits under an unknown key": f'{{"a": {{{ENTRY}, "x": 0.{"1" * 500}}}}}',
    "more than 64 levels under an unknown key": f'{{"a": {{{ENTRY}, "x": {"[" * 100}{"]" * 100}}}}}',
    "more than 64 dimensions, which no library can hold": '{"a": {"dtype": "F32", "shape": %s, "data_offsets": [0, 4]}}'
    % ([1] * 65),
    "a name of more than a megabyte": f'{{"{"n" * 1_100_000}": {{{ENTRY}}}}}',
}


@pytest.mark.parametrize("what", STRICTER)
def test_where_we_are_stricter_on_purpose(what: str, place: Path) -> None:
    data = container(STRICTER[what], bytes(4))
    assert accepts(data, place)
    assert ours(data)


@pytest.mark.parametrize(
    "header",
    [
        "  {}",
        "{}\n",
        "{}\0",
        "[]",
        "",
        '{"__metadata__": null}',
        '{"__metadata__": {}, "__metadata__": {}}',
        '{"__metadata__": []}',
        '{"__metadata__": {"a": 1}}',
        r'{"\ud800": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}',
        r'{"\ud83d\ude00": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [0], "data_offsets": [-0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [0.0], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "x": "\\udc00"}}',
        '{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "x": 1e999}}',
        '{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "dtype": "U8"}}',
        '{"a": {"dtype": "U8", "shape": [18446744073709551615, 0], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [18446744073709551616, 0], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [4294967296, 4294967296, 0], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [0, 4294967296, 4294967296], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "F64", "shape": [576460752303423488], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}}',
        '{"a": {"d\\u0074ype": "U8", "shape": [0], "data_offsets": [0, 0]}}',
        '{"a": null}',
    ],
)
def test_corners_of_the_format(header: str, place: Path) -> None:
    data = container(header)
    assert accepts(data, place) == (ours(data) == [])


def corrupted(data: bytes, draw: random.Random) -> bytes:
    """One to three random changes to the length, the header or the end of the file."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(changed)) if changed else 0
        action = draw.randrange(6)
        if action == 0 and changed:
            changed[at] ^= 1 << draw.randrange(8)
        elif action == 1:
            changed[at:at] = draw.randbytes(draw.randint(1, 4))
        elif action == 2:
            del changed[at : at + draw.randint(1, 4)]
        elif action == 3 and len(changed) >= 8:
            changed[:8] = struct.pack("<Q", draw.choice([draw.getrandbits(64), draw.randrange(2 * len(changed))]))
        elif action == 4:
            del changed[at:]
        else:
            piece = draw.choice([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"0", b"-0", b"NaN", b"\\ud800"])
            changed[at:at] = piece
    return bytes(changed)


def seeds() -> list[bytes]:
    header = {f"layers.{i}.w": entry("F32", [2], 8 * i, 8 * i + 8) for i in range(3)}
    return [
        container(header, bytes(24)),
        container(json.dumps({"__metadata__": {"format": "pt"}, **header}, indent=1), bytes(24)),
        container({"é😀\n": entry("BF16", [], 0, 2), "b": entry("U8", [0], 2, 2)}, bytes(2)),
    ]


@pytest.mark.parametrize("batch", range(4))
def test_random_damage_gets_the_same_verdict(batch: int, place: Path) -> None:
    draw = random.Random(batch)
    for _ in range(500):
        data = corrupted(draw.choice(seeds()), draw)
        kinds = ours(data)
        if accepts(data, place):
            # The ways in which one is stricter; see STRICTER.
            assert set(kinds) <= {"duplicate_name", "header_entry"}, data
        else:
            assert kinds, data
