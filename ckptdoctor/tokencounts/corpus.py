"""Text as people keep it, counted as token ids: JSON lines and Arrow data, row after row in constant memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ckptdoctor.text import listing, show
from ckptdoctor.tokencounts.arrow_files import read_arrow
from ckptdoctor.tokencounts.rows import FIELDS, IDS, TEXTS, texts_of
from ckptdoctor.tokencounts.tally import Tally
from ckptdoctor.tokencounts.tokenizing import TextCounter

__all__ = ["read_corpus"]

_LINE_LIMIT = 16 * 1024 * 1024
_IDS_AT_ONCE = 65_536


def read_corpus(place: Path, tally: Tally, tokenizer: Path | None) -> str:
    """Add the tokens of the file `place` to `tally`; gives `ids` or `text`. Raises `CannotExamineError`."""
    try:
        if place.suffix.lower() == ".jsonl":
            return _lines(place, tally, tokenizer)
        return read_arrow(place, tally, tokenizer)
    except OSError as error:
        raise tally.refuse(f"cannot be read ({show(error.strerror or error)})") from None


def _lines(place: Path, tally: Tally, tokenizer: Path | None) -> str:
    ids: list[int] = []
    texts: TextCounter | None = None
    field = None
    for number, row in _rows(place, tally):

        def refuse(problem: str, line: int = number) -> Exception:
            return tally.refuse(f"line {line}: {problem}")

        if field is None:
            field = _field_of(row, refuse)
            texts = TextCounter(tally, tokenizer) if field in TEXTS else None
        if isinstance(row, dict) and field not in row:
            raise refuse(f"it has no {field}, unlike the lines before it")
        value = row[field] if isinstance(row, dict) else row
        if texts is not None:
            for text in texts_of(value, refuse):
                texts.add(text)
        else:
            ids += _ids(value, refuse)
            if len(ids) >= _IDS_AT_ONCE:
                _count(ids, tally)
                ids = []
    _count(ids, tally)
    if texts is not None:
        texts.finish()
    return "text" if texts is not None else "ids"


def _rows(place: Path, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Each line that is not empty, with its number from 1."""
    with place.open("rb") as stream:
        number = 0
        while line := stream.readline(_LINE_LIMIT + 1):
            number += 1
            if len(line) > _LINE_LIMIT:
                raise tally.refuse(f"line {number}: more than {_LINE_LIMIT} bytes in one line")
            if line.isspace():
                continue
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                why = "it is nested too deep" if isinstance(error, RecursionError) else show(error, 80)
                raise tally.refuse(f"line {number}: no JSON ({why})") from None


def _field_of(row: object, refuse: Callable[[str], Exception]) -> str:
    if isinstance(row, dict):
        found = next((name for name in FIELDS if name in row), None)
        if found is None:
            raise refuse(f"none of {listing(FIELDS, 10)} is among its fields ({listing(row)})")
        return found
    if isinstance(row, str) or (isinstance(row, list) and any(isinstance(item, (str, dict)) for item in row)):
        return TEXTS[0]
    if isinstance(row, list):
        return IDS[0]
    raise refuse(f"{show(repr(row), 60)} is neither an object nor a list of ids nor a text")


def _ids(value: object, refuse: Callable[[str], Exception]) -> list[int]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise refuse(f"{show(repr(value), 60)} stands where a list of token ids is expected")
    if value and isinstance(value[0], list):  # a batch of one, as tokenizers return it
        return [token for row in value for token in _ids(row if isinstance(row, list) else [row], refuse)]
    for token in value:
        if type(token) is not int or not -(2**63) <= token < 2**63:
            raise refuse(f"{show(repr(token), 60)} is no token id")
    return value


def _count(ids: list[int], tally: Tally) -> None:
    import numpy as np

    tally.add_ids(np.array(ids, dtype=np.int64))
