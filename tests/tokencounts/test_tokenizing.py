"""Text is counted as the tokenizer of the target reads it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from token_files import (
    CONVERSATIONS,
    TEXTS,
    as_counter,
    byte_level,
    counted,
    refusal,
    write_texts,
)

from ckptdoctor.tokencounts import tokenizing
from ckptdoctor.tokencounts.token_counts import read_token_counts


@pytest.mark.parametrize("column", ["text", "content"])
def test_text(column: str, tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)  # type: ignore[attr-defined]
    for form, file in write_texts(tmp_path, TEXTS, column).items():  # type: ignore[arg-type]
        found = read_token_counts(str(file), place)
        assert (form, found.kind, counted(found)) == (form, "text", want)


@pytest.mark.parametrize(("column", "names"), [("messages", ("role", "content")), ("conversations", ("from", "value"))])
def test_messages(column: str, names: tuple[str, str], tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    rows = [[dict(zip(names, message.values(), strict=True)) for message in talk] for talk in CONVERSATIONS]
    contents = [message["content"] for talk in CONVERSATIONS for message in talk]
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in contents)  # type: ignore[attr-defined]
    for form, file in write_texts(tmp_path, rows, column).items():  # type: ignore[arg-type]
        assert (form, counted(read_token_counts(str(file), place))) == (form, want)


def test_messages_with_parts_and_calls(tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    parts = [{"type": "image", "image": "x"}, {"type": "text", "text": "a picture"}]
    rows = [[{"role": "user", "content": parts}, {"role": "assistant", "content": None}, {"role": "tool"}]]
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"messages": rows[0]}), encoding="utf-8")
    want = Counter(made.encode("a picture", add_special_tokens=False).ids)  # type: ignore[attr-defined]
    assert counted(read_token_counts(str(file), place)) == want


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": 5}', "line 1: 5 stands where text is expected"),
        ('{"messages": [{"who": "a", "says": "b"}]}', "line 1: a message in it has neither content nor value, but who"),
        ('{"text": [[[[["a"]]]]]}', "line 1: ['a'] stands where text is expected"),
        ('{"text": ""}', "counts no token at all"),
    ],
)  # fmt: skip
def test_what_is_no_text(line: str, said: str, tmp_path: Path) -> None:
    byte_level(tmp_path)
    (tmp_path / "rows.jsonl").write_text(line, encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl", tmp_path / "tokenizer.json").startswith(said)


def test_text_is_counted_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = byte_level(tmp_path)
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)
    file = write_texts(tmp_path, TEXTS)["jsonl"]  # type: ignore[arg-type]
    monkeypatch.setattr(tokenizing, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(tokenizing, "_CHARACTERS_AT_ONCE", 100)
    assert counted(read_token_counts(str(file), tmp_path / "tokenizer.json")) == want
    monkeypatch.setattr(tokenizing, "_TEXT_LIMIT", 50)
    assert "one text has 62 characters; at most 50" in refusal(file, tmp_path / "tokenizer.json")


def test_half_a_surrogate_pair_is_no_reason_to_stop(tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"text": "a\\ud800b"}', encoding="utf-8")
    want = Counter(made.encode("a?b", add_special_tokens=False).ids)
    assert counted(read_token_counts(str(tmp_path / "rows.jsonl"), tmp_path / "tokenizer.json")) == want


def test_text_needs_a_tokenizer(tmp_path: Path) -> None:
    for file in write_texts(tmp_path, TEXTS).values():  # type: ignore[arg-type]
        assert refusal(file) == "holds text, which needs the target's tokenizer.json (--target PATH)"
        (tmp_path / "tokenizer.json").write_text('{"model": 7}', encoding="utf-8")
        assert "is no tokenizer" in refusal(file, tmp_path / "tokenizer.json")


def test_settings_of_a_training_run_are_not_applied(tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)
    made.enable_truncation(3)
    made.enable_padding(length=50)
    made.save(str(tmp_path / "tokenizer.json"))
    file = write_texts(tmp_path, TEXTS)["parquet"]  # type: ignore[arg-type]
    assert counted(read_token_counts(str(file), tmp_path / "tokenizer.json")) == want
