"""Rows of ids are counted, against a plain recount."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from token_files import (
    as_counter,
    counted,
    ids_of,
    refusal,
    write_ids,
    write_table,
)

from ckptdoctor.tokencounts.token_counts import read_token_counts

FORMS = ("parquet", "arrow", "feather", "zstd", "jsonl")


@pytest.mark.parametrize("column", ["input_ids", "token_ids", "ids"])
def test_rows_of_ids(column: str, tmp_path: Path) -> None:
    rows = ids_of()
    want = as_counter(rows)
    places = write_ids(tmp_path, rows, column)
    for form in FORMS:
        found = read_token_counts(str(places[form]))
        assert (form, found.kind, counted(found)) == (form, "ids", want)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.uint16()),
        pa.large_list(pa.int64()),
        pa.list_(pa.list_(pa.int32())),
        pa.list_(pa.int8(), 2),
        pa.int64(),
    ],
    ids=str,
)
def test_columns_of_other_types(kind: pa.DataType, tmp_path: Path) -> None:
    rows: list[object] = [[1, 2], None, [2, 3]]
    if kind == pa.list_(pa.list_(pa.int32())):
        rows = [[[1], [2]], [], [[2, 3]]]
    elif kind == pa.list_(pa.int8(), 2):
        rows = [[1, 2], [2, 3]]  # pyarrow before 26 does not read an absent one back from Parquet
    elif kind == pa.int64():
        rows = [1, 2, 2, 3]
    table = pa.table({"ids": pa.array(rows, kind)})
    for place in write_table(tmp_path, table).values():
        assert counted(read_token_counts(str(place))) == Counter({1: 1, 2: 2, 3: 1})


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ([[1, -2]], pa.int64(), "-2 is no token id: ids are from 0 to 16777215"),
        ([[1, 2**24]], pa.int64(), "16777216 is no token id: ids are from 0 to 16777215"),
        ([[2**63]], pa.uint64(), "9223372036854775808 is no token id: ids are from 0 to 16777215"),
        ([[1, None]], pa.int64(), "ids has empty places among its token ids"),
        ([[1.0]], pa.float32(), "ids holds float, not token ids"),
        ([["a"]], pa.string(), "ids holds string, not token ids"),
        ([[]], pa.int64(), "counts no token at all"),
    ],
)
def test_columns_of_what_are_no_ids(rows: list[object], kind: pa.DataType, said: str, tmp_path: Path) -> None:
    table = pa.table({"ids": pa.array(rows, pa.list_(kind))})
    for place in write_table(tmp_path, table).values():
        assert refusal(place) == said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"x": 1}', "line 1: none of input_ids, token_ids, ids, text, content, messages and conversations is"),
        ("5", "line 1: 5 is neither an object nor a list of ids nor a text"),
        ('\n{"ids": 5}', "line 2: 5 stands where a list of token ids is expected"),
        ('{"ids": [1, 2.5]}', "line 1: 2.5 is no token id"),
        ('{"ids": [true]}', "line 1: True is no token id"),
        ('{"ids": [1, NaN]}', "line 1: nan is no token id"),
        ('{"ids": [99999999999999999999]}', "line 1: 99999999999999999999 is no token id"),
        ('{"ids": [1]}\n{"id": [1]}', "line 2: it has no ids, unlike the lines before it"),
        ('{"ids": [-1]}', "-1 is no token id: ids are from 0 to 16777215"),
        ('{"ids": [1]', "line 1: no JSON"),
        ("[" * 100_000, "line 1: no JSON (it is nested too deep)"),
        ("", "counts no token at all"),
        ("[]", "counts no token at all"),
    ],
)  # fmt: skip
def test_lines_that_hold_no_ids(lines: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl").startswith(said)


def test_lines_that_are_lists_or_batches_of_one(tmp_path: Path) -> None:
    place = tmp_path / "rows.jsonl"
    place.write_text('[1, 2]\n[]\n[2]\n{"input_ids": [[7, 7]]}\n{"input_ids": null}\n', encoding="utf-8")
    assert counted(read_token_counts(str(place))) == Counter({1: 1, 2: 2, 7: 2})


def test_a_line_of_many_megabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckptdoctor.tokencounts.corpus._LINE_LIMIT", 100)
    (tmp_path / "rows.jsonl").write_text("[1]\n[" + "1, " * 40 + "1]\n", encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl") == "line 2: more than 100 bytes in one line"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(st.lists(st.integers(0, 700), max_size=30), min_size=1, max_size=12))
def test_every_form_agrees_with_a_plain_recount(rows: list[list[int]], tmp_path: Path) -> None:
    want = as_counter(rows)
    for place in write_ids(tmp_path, rows).values():
        if want:
            assert counted(read_token_counts(str(place))) == want
        else:
            assert refusal(place) == "counts no token at all"
