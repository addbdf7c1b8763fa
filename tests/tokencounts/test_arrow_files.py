"""Damaged and hostile Arrow files are refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from token_files import (
    as_counter,
    counted,
    ids_of,
    refusal,
    write_ids,
)

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.tokencounts import arrow_files
from ckptdoctor.tokencounts.token_counts import read_token_counts


@pytest.mark.parametrize("form", ["parquet", "arrow", "feather", "zstd"])
def test_arrow_files_cut_anywhere_are_refused_or_read_to_the_same_counts(form: str, tmp_path: Path) -> None:
    rows = ids_of(60)
    place = write_ids(tmp_path, rows)[form]
    data, want = place.read_bytes(), as_counter(rows)
    for length in [*range(0, len(data) - 8, max(len(data) // 60, 1))]:
        place.write_bytes(data[:length])
        try:
            found = counted(read_token_counts(str(place)))
        except CannotExamineError:
            continue
        # A stream may end between two batches; nothing in it says how many there were to be.
        assert form == "arrow"
        assert found <= want


@pytest.mark.parametrize("form", ["arrow", "zstd"])
def test_damaged_arrow_files_never_crash(form: str, tmp_path: Path) -> None:
    place = write_ids(tmp_path, ids_of(40))[form]
    data = bytearray(place.read_bytes())
    generator = np.random.default_rng(5)
    for at in generator.integers(0, len(data), 150):
        damaged = bytearray(data)
        damaged[at] ^= int(generator.integers(1, 256))
        place.write_bytes(damaged)
        with contextlib.suppress(CannotExamineError):
            read_token_counts(str(place))


@pytest.mark.parametrize("form", ["parquet", "zstd"])
def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "_BOMB_FROM", 1_000_000)
    table = pa.table({"ids": pa.array([[0] * 4_000_000], pa.list_(pa.int64()))})
    places = {"parquet": tmp_path / "x.parquet", "zstd": tmp_path / "x.feather"}
    parquet.write_table(table, places["parquet"], compression="zstd")
    with pa.OSFile(str(places["zstd"]), "wb") as file:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)
    assert "which is no text" in refusal(places[form])
