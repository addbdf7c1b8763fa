"""The JSON reader, held against `json.loads`: same values, right places, and never an exception."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import jsonscan
from ckptdoctor.checkpoint.jsonreader import JsonDocument, read_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=25,
)
STYLES = st.sampled_from([{}, {"indent": 1}, {"indent": 3}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def kinds(document: JsonDocument) -> list[str]:
    return [fault.kind for fault in document.faults]


def only_fault(data: bytes | str, **options: Any) -> tuple[str, int | None, int | None]:
    """Kind, offset and line of the one fault of a text that cannot be read."""
    document = read_json(data.encode() if isinstance(data, str) else data, "x.json", **options)
    assert not document.readable
    assert document.value is None
    assert not document.places
    (fault,) = document.faults
    return fault.kind, fault.offset, fault.line


def same(ours: Any, theirs: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(v, theirs[k]) for k, v in ours.items())
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


@given(VALUES, STYLES)
def test_valid_json_is_read_as_json_loads_reads_it(value: Any, style: dict[str, Any]) -> None:
    text = json.dumps(value, **style)
    document = read_json(text.encode(), "x.json")
    assert document.readable
    assert document.faults == ()
    assert same(document.value, json.loads(text))


@given(VALUES, STYLES, st.integers(0, 5), st.integers(0, 99))
def test_each_place_is_the_quote_of_its_key(value: Any, style: dict[str, Any], depth: int, base: int) -> None:
    data = json.dumps({"top": value, "more": {"a": [value]}}, **style).encode()
    document = read_json(data, "x.json", base=base, depth=depth)
    seen = set()
    for path, (offset, line) in document.places.items():
        assert len(path) <= depth
        at = offset - base
        key, _ = json.JSONDecoder().raw_decode(data[at:].decode())
        assert key == path[-1]
        assert line == 1 + data[:at].count(b"\n")
        assert document.line(*path) == line
        seen.add(path)
    assert seen == set(object_paths(document.value, (), depth))


def object_paths(value: Any, base: tuple[str, ...], depth: int) -> list[tuple[str, ...]]:
    """The paths of all keys outside arrays."""
    found: list[tuple[str, ...]] = []
    if isinstance(value, dict) and len(base) < depth:
        for key, inner in value.items():
            found += [(*base, key), *object_paths(inner, (*base, key), depth)]
    return found


PIECES = (
    *("{", "}", "[", "]", ",", ":", '"', '"a"', '"a":', '"dtype": "F32", ', "1", "-", "0", ".5", "e9", "true", "nul"),
    *(" ", "\n", "\\", "\\u12", "\\ud800", "\\n", "\x00", "\x7f", "é", "😀", "[1,2]", "[1, 2]", "NaN", "{}"),
)
JSONISH = st.lists(st.sampled_from(PIECES), max_size=14).map(lambda parts: "".join(parts).encode())


@given(st.binary(max_size=40) | JSONISH)
def test_any_bytes_are_read_or_refused_as_json_loads_does(data: bytes) -> None:
    document = read_json(data, "x.json")
    doubtful = {"json_not_a_number", "json_duplicate_key", "json_huge_number", "json_encoding", "json_byte_order_mark"}
    try:
        expected = json.loads(data.decode())
    except (ValueError, RecursionError):
        # The standard library refuses a byte order mark in text; we only note it.
        assert not document.readable or "json_byte_order_mark" in kinds(document)
    else:
        assert document.readable
        assert set(kinds(document)) <= doubtful
        if not document.faults and b"-0" not in data:
            assert same(document.value, expected)
    for fault in document.faults:
        assert fault.offset is not None
        assert 0 <= fault.offset <= len(data)
        assert fault.line == 1 + data[: fault.offset].count(b"\n")


@given(VALUES, st.data())
def test_a_text_cut_short_is_never_read(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value]).encode()
    cut = data.draw(st.integers(0, len(text) - 1))
    assert not read_json(text[:cut], "x.json").readable


@pytest.mark.parametrize(
    ("text", "kind", "offset", "line"),
    [
        ("", "json_syntax", 0, 1),
        ("  ", "json_syntax", 2, 1),
        ("{", "json_syntax", 1, 1),
        ('{"a"', "json_syntax", 4, 1),
        ('{"a" 1}', "json_syntax", 5, 1),
        ('{"a":}', "json_syntax", 5, 1),
        ('{"a":1,}', "json_syntax", 7, 1),
        ('{"a":1 "b":2}', "json_syntax", 7, 1),
        ("{a:1}", "json_syntax", 1, 1),
        ("{]", "json_syntax", 1, 1),
        ("[}", "json_syntax", 1, 1),
        ("[1}", "json_syntax", 2, 1),
        ("[1,]", "json_syntax", 3, 1),
        ("[01]", "json_syntax", 2, 1),
        ("[+1]", "json_syntax", 1, 1),
        ("[.5]", "json_syntax", 1, 1),
        ("[1.]", "json_syntax", 2, 1),
        ("[True]", "json_syntax", 1, 1),
        ("['a']", "json_syntax", 1, 1),
        ('{"a":1}\n x', "json_syntax", 9, 2),
        ("// a comment\n{}", "json_syntax", 0, 1),
        ('["abc', "json_syntax", 1, 1),
        ('["abc\\', "json_syntax", 1, 1),
        ('["a\tb"]', "json_syntax", 3, 1),
        ('["\\n\tb"]', "json_syntax", 4, 1),
        ('["a\\\tb"]', "json_syntax", 4, 1),
        ('["\\x41"]', "json_syntax", 1, 1),
        ('["\\u12g4"]', "json_syntax", 1, 1),
        ('\n["\\é"]', "json_syntax", 2, 2),
        (b'["ab\xff"]', "json_encoding", 4, 1),
        (b'["\\n\xed\xa0\x80"]', "json_encoding", 4, 1),
        (b"[\xff]", "json_syntax", 1, 1),
        (b"\xff\xfe{\x00}\x00", "json_syntax", 0, 1),
    ],
)
def test_where_the_text_stops_being_json(text: str | bytes, kind: str, offset: int, line: int) -> None:
    assert only_fault(text) == (kind, offset, line)


def test_the_second_of_two_equal_keys_counts_and_is_reported_with_its_place() -> None:
    document = read_json(b'{"a": 1,\n "b": 2,\n "a": 3, "a": 4}', "x.json")
    (fault,) = document.faults
    assert (fault.kind, fault.tensor, fault.offset, fault.line, fault.found) == ("json_duplicate_key", "a", 19, 3, 1)
    assert fault.count == 2
    assert document.value == {"a": 4, "b": 2}
    assert document.places["a",] == (27, 3)


def test_what_a_duplicate_replaces_has_no_place() -> None:
    document = read_json(b'{"a": {"x": 1, "y": 1}, "a": {"y": 2}, "b": {"z": 0}, "b": [1]}', "x.json")
    assert sorted(document.places) == [("a",), ("a", "y"), ("b",)]
    assert document.line("a", "x") is None


@pytest.mark.parametrize(("text", "found"), [('{"o": {"a":1,"a":2}}', 2), ('{"o": [{"a":1,"a":2}]}', 5)])
def test_a_duplicate_deeper_down_says_how_deep(text: str, found: int) -> None:
    assert [(f.kind, f.found) for f in read_json(text.encode(), "x").faults] == [("json_duplicate_key", found)]


def test_escaped_and_plain_spellings_of_a_key_are_the_same_key() -> None:
    assert kinds(read_json(rb'{"a":1,"\u0061":2}', "x")) == ["json_duplicate_key"]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_not_a_number_is_read_and_reported(word: str) -> None:
    document = read_json(f'{{"a":\n{word}}}'.encode(), "x.json")
    (fault,) = document.faults
    assert (fault.kind, fault.found, fault.offset, fault.line) == ("json_not_a_number", word, 6, 2)
    assert not math.isfinite(document.value["a"])


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_64_levels_are_read_and_65_are_not(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    assert read_json((opening * 64 + "1" + closing * 64).encode(), "x").readable
    assert only_fault(opening * 65 + "1" + closing * 65) == ("json_too_deep", 64 * len(opening), 1)


def test_the_level_of_a_list_and_of_an_entry_of_a_header_count_too() -> None:
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    assert only_fault("[" * 64 + "[1]" + "]" * 64)[0] == "json_too_deep"
    assert read_json(("[" * 62 + entry + "]" * 62).encode(), "x").readable
    assert only_fault("[" * 63 + entry + "]" * 63)[:2] == ("json_too_deep", 63 + entry.index("["))


@pytest.mark.parametrize(
    ("number", "found"),
    [
        (str(2**64), str(2**64)),
        (str(-(2**63) - 1), str(-(2**63) - 1)),
        ("1e999", "1e999"),
        ("-1e999", "-1e999"),
        ("7" * 5000, "5000 characters long"),
        ("0." + "1" * 500, "502 characters long"),
    ],
)
def test_huge_numbers_are_reported_and_read_as_nothing(number: str, found: str) -> None:
    document = read_json(f"[0,{number}]".encode(), "x")
    (fault,) = document.faults
    assert (fault.kind, fault.offset, fault.found) == ("json_huge_number", 3, found)
    assert document.value == [0, None]


def test_the_largest_numbers_are_whole() -> None:
    assert read_json(b"[18446744073709551615,-9223372036854775808]", "x").value == [2**64 - 1, -(2**63)]


def test_minus_zero_is_no_count() -> None:
    assert isinstance(read_json(b"[-0, 1]", "x").value[0], float)


def test_a_byte_order_mark_is_reported_and_skipped() -> None:
    document = read_json(b'\xef\xbb\xbf{"a": 1}', "x")
    assert [(f.kind, f.offset) for f in document.faults] == [("json_byte_order_mark", 0)]
    assert document.places["a",] == (4, 1)


@pytest.mark.parametrize("half", [r"\ud800", r"\udc00", r"\ud83dx", r"\ude00\ud83d"])
def test_half_a_surrogate_pair_is_read_and_reported(half: str) -> None:
    document = read_json(f'["{half}"]'.encode(), "x")
    assert document.value == json.loads(f'["{half}"]')
    assert [(f.kind, f.offset) for f in document.faults] == [("json_encoding", 1)]


def test_a_whole_surrogate_pair_is_one_character() -> None:
    document = read_json(rb'["\ud83d\ude00"]', "x")
    assert (document.value, document.faults) == (["😀"], ())


@pytest.mark.parametrize("inner", ["x", "é", "\\n"])
def test_a_string_may_be_as_long_as_the_limit_and_no_longer(inner: str) -> None:
    width = len(inner.encode())
    fits = inner * (jsonscan.MAX_STRING // width)
    assert read_json(f'["{fits}"]'.encode(), "x").readable
    assert only_fault(f'["{fits}{inner}"]') == ("json_long_string", 1, 1)


@pytest.mark.parametrize(
    "unit", ['"ab%",', "[],", "[1],", "{},", '{"k":1},', "7,", '"\\ud83d\\ude00",', "null,", '"😀",']
)
def test_what_is_built_is_bounded(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonscan, "MAX_COST", 10_000)
    assert read_json(f'{{"a":[{unit}1]}}'.encode(), "x").readable
    assert only_fault('{"a":[' + unit * 1000 + "1]}")[0] == "json_too_many_values"


def test_keys_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonscan, "MAX_COST", 10_000)
    kinds_seen = kinds(read_json(("{" + '"a":1,' * 1000 + '"a":1}').encode(), "x"))
    assert kinds_seen == ["json_duplicate_key", "json_too_many_values"]


def test_steps_are_bounded_for_texts_that_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonscan, "MAX_STEPS", 500)
    assert read_json(b'["a"' + b',"a"' * 400 + b"]", "x").readable
    assert only_fault(b'["a"' + b',"a"' * 600 + b"]")[0] == "json_too_many_values"


def test_only_stops_as_soon_as_the_keys_are_there() -> None:
    data = b'{"version": "1", "added_tokens": [{"id": 1}], "model": oops'
    document = read_json(data, "tokenizer.json", only={"added_tokens", "version"})
    assert document.readable
    assert document.value == {"version": "1", "added_tokens": [{"id": 1}]}
    assert not read_json(data, "tokenizer.json", only={"model"}).readable
    assert read_json(b'{"a": {"x": 1}, "b": oops', "x", only={"a"}).object == {"a": {"x": 1}}
    assert not read_json(b'{"a": {"x": 1, oops', "x", only={"x"}).readable


def test_object_is_empty_for_other_values() -> None:
    assert read_json(b"[1]", "x").object == {}
    assert read_json(b"{", "x").object == {}
