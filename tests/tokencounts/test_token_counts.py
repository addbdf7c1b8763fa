"""What a path of token counts stands for, and what is absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from token_files import (
    TEXTS,
    as_counter,
    byte_level,
    counted,
    ids_of,
    refusal,
    write_ids,
    write_texts,
)

from ckptdoctor.tokencounts.token_counts import read_token_counts


@pytest.mark.parametrize(("package", "extra"), [("pyarrow", "data"), ("tokenizers", "text")])
def test_an_extra_that_is_not_installed_is_named(
    package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    byte_level(tmp_path)
    form = "parquet" if package == "pyarrow" else "jsonl"
    file = write_texts(tmp_path, TEXTS)[form]  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, package, None)
    said = refusal(file, tmp_path / "tokenizer.json")
    assert f"needs {package}: pip install 'ckptdoctor[{extra}]'" in said


@pytest.mark.torch
def test_torch_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token_freq.pt").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install 'ckptdoctor[torch]'" in refusal(tmp_path / "token_freq.pt")


def test_a_folder_of_shards_and_a_pattern(tmp_path: Path) -> None:
    first, second = ids_of(seed=1), ids_of(seed=2)
    for number, rows in enumerate((first, second)):
        part = tmp_path / f"part{number}"
        part.mkdir()
        write_ids(part, rows)["arrow"].rename(tmp_path / f"data-0000{number}-of-00002.arrow")
    write_ids(tmp_path / "part0", first)["arrow"].rename(tmp_path / "cache-0123.arrow")
    (tmp_path / "dataset_info.json").write_text("{}", encoding="utf-8")
    want = as_counter([*first, *second])
    assert counted(read_token_counts(str(tmp_path))) == want
    assert counted(read_token_counts(f"{tmp_path}/data-*.arrow")) == want
    assert counted(read_token_counts(f"{tmp_path}/data-00000-*.arrow")) == as_counter(first)
    (tmp_path / "more.jsonl").write_text("[1]", encoding="utf-8")
    assert "holds files in .arrow and .jsonl; name those of one kind" in refusal(tmp_path)
    (tmp_path / "counts.json").write_text("[1]", encoding="utf-8")
    assert "its files are of several kinds (ids and json)" in refusal(f"{tmp_path}/[cm]o*.json*")


def test_a_shard_that_is_damaged_is_named(tmp_path: Path) -> None:
    write_ids(tmp_path, ids_of())["jsonl"].rename(tmp_path / "a.jsonl")
    for place in tmp_path.glob("[!a]*"):
        place.unlink()
    (tmp_path / "b.jsonl").write_text("nothing", encoding="utf-8")
    assert f"{tmp_path / 'b.jsonl'}: line 1: no JSON" in refusal(tmp_path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json") == "no such file or folder"
    assert refusal(f"{tmp_path}/*.json") == "no such file or folder"
    assert refusal("a\0b").endswith("cannot be opened")
    assert refusal("/dev/null") == "neither a file nor a folder"
    assert (
        refusal(tmp_path) == "the folder has neither a token_freq.pt nor files in .arrow, .parquet, .feather and .jsonl"
    )
    (tmp_path / "counts.csv").write_text("1,2", encoding="utf-8")
    assert "the name of a file with counts or text ends in .pt, .pth, .bin, .json" in refusal(tmp_path / "counts.csv")
