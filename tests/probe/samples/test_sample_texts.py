"""Rows of text files: prompts, conversations and token ids in the shapes that people keep them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

from ckptdoctor.probe.samples.recorded_text import UnreadableError  # noqa: E402
from ckptdoctor.probe.samples.texts import Prompt, read_prompts  # noqa: E402

SHAREGPT = {"id": "x", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]}
OPENAI = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
SAID = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"})


def _read(tmp_path: Path, data: str | bytes, name: str = "p.jsonl") -> list[Any]:
    place = tmp_path / name
    place.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(read_prompts(place, name))


def _rows(*rows: Any) -> str:
    return "\n".join(json.dumps(row) for row in rows) + "\n"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("hi", {"text": "hi"}),
        ({"prompt": "hi", "id": 3}, {"text": "hi"}),
        ({"text": "hi"}, {"text": "hi"}),
        ({"turns": ["hi", "and then"]}, {"text": "hi"}),
        (SHAREGPT, {"messages": SAID}),
        (OPENAI, {"messages": SAID[:1]}),
        ([{"role": "user", "content": "hi"}], {"messages": SAID[:1]}),
        ({"input_ids": [1, 2]}, {"ids": (1, 2)}),
        ({"input_ids": [[1, 2]]}, {"ids": (1, 2)}),
        ({"input_ids": [1, 2], "loss_mask": [0, 1]}, {"ids": (1, 2), "mask": (False, True)}),
        ([1, 2], {"ids": (1, 2)}),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".data"])
def test_rows(tmp_path: Path, row: Any, found: dict[str, Any], ending: str) -> None:
    if ending == ".json":
        assert _read(tmp_path, json.dumps([row, row]), "p.json") == [
            Prompt("p.json, row 1", **found),
            Prompt("p.json, row 2", **found),
        ]
        assert _read(tmp_path, json.dumps({"data": [row]}), "p.json") == [Prompt("p.json", **found)]
        assert _read(tmp_path, json.dumps(row, indent=1), "p.json") == [Prompt("p.json", **found)]
        return
    name = f"p{ending}"
    lines = _read(tmp_path, _rows(row) + "\n" + _rows(row), name)
    assert lines == [Prompt(f"{name}, line 1", **found), Prompt(f"{name}, line 3", **found)]


def test_a_text_file_holds_a_text_between_empty_lines(tmp_path: Path) -> None:
    found = _read(tmp_path, "one\ntwo\n\n \nthree\n", "p.txt")
    assert found == [Prompt("p.txt, text 1", text="one\ntwo"), Prompt("p.txt, text 2", text="three")]
    assert _read(tmp_path, '{"prompt": 1}', "p.txt") == [Prompt("p.txt", text='{"prompt": 1}')]
    assert _read(tmp_path, "plain words", "p.data") == [Prompt("p.data", text="plain words")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question_id": 3}, "none of messages"),
        ({"prompt": 3}, "stands in prompt where a text is expected"),
        ({"messages": [{"role": "pilot", "content": "hi"}]}, "where a message with a role"),
        ({"messages": ["hi"]}, "where a message with a role"),
        ({"input_ids": [1, -1]}, "where a list of token ids is expected"),
        ({"input_ids": [True]}, "where a list of token ids is expected"),
        (3, "is no text"),
        (" ", "an empty text"),
    ],
)
def test_rows_that_are_none(tmp_path: Path, row: Any, said: str) -> None:
    prompt, (name, reason) = _read(tmp_path, _rows("hi", row))
    assert prompt.text == "hi"
    assert name == "p.jsonl, line 2"
    assert said in str(reason)


def test_a_broken_line_does_not_stop_the_others(tmp_path: Path) -> None:
    deep = "[" * 100_000
    found = _read(tmp_path, f'"one"\n{{"prompt": \n{deep}\n"four"\n')
    assert [type(row) for row in found] == [Prompt, tuple, tuple, Prompt]


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (b"\xff\xfe\x00", "p.txt", "no text in UTF-8"),
        (b"\xff\xfe\x00", "p.json", "no text in UTF-8"),
        (b'{"prompt": "h', "p.json", "is no JSON"),
        (b"[" * 100_000, "p.json", "is no JSON"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, name: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        _read(tmp_path, data, name)


FIELDS = ["messages", "input_ids", "prompt", "data", "role", "content", "from", "value", "turns"]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
)


@given(ANY)
def test_any_json_is_a_prompt_or_a_reason(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    place = tmp_path_factory.getbasetemp() / "any.json"
    place.write_text(json.dumps(value), encoding="utf-8")
    for row in read_prompts(place, "any.json"):
        if isinstance(row, Prompt):
            assert sum((row.text is not None, bool(row.messages), bool(row.ids))) == 1
        else:
            assert isinstance(row[1], UnreadableError)
