"""The texts of a target's tokens, from its tokenizer.json: read as data, nothing in it is executed.

A vocabulary is an object (BPE, WordPiece, WordLevel) or a list of [piece, score] (Unigram); added tokens stand beside
it. Byte-level pieces (GPT-2) are written in an alphabet of 256 letters for 256 bytes; others write bytes without a
token of their own as `<0xNN>` and a space as `▁`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.jsonreader import read_json
from ckptdoctor.checkpoint.siblings import Siblings
from ckptdoctor.unknown import Known, Unknown

__all__ = ["TokenTexts", "byte_alphabet", "read_token_texts"]

_NEEDS = Unknown("a tokenizer.json beside the target or the draft")
_NAME = "tokenizer.json"
# Ids beyond it are left out: a few hostile entries must not become a list of millions.
_MOST = 2**21
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_STRUCTURE = re.compile(rb'["\[\]{}]')
_KEY = re.compile(rb'[ \t\r\n,]*"([^"\\]{0,200})"[ \t\r\n]*:[ \t\r\n]*')
_PIECE = rb'"([^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*){0,200})"[ \t\r\n]*'
_PIECE_ID = re.compile(rb"[ \t\r\n]*%b:[ \t\r\n]*([0-9]{1,9})[ \t\r\n]*(,|\})" % _PIECE)
_PIECE_SCORE = re.compile(
    rb"[ \t\r\n]*\[[ \t\r\n]*%b,[ \t\r\n]*(-?[0-9.eE+-]{1,40})[ \t\r\n]*\][ \t\r\n]*(,|\])" % _PIECE
)
_SCALAR_END = re.compile(rb"[,}\]]")


@dataclass(frozen=True)
class TokenTexts:
    """The pieces of a tokenizer.

    `pieces` are the texts by id, `""` where an id has none; bytes that are no whole character stand in them as
    `<0xNN>`. `byte_ids` are the tokens of single bytes: the byte fallback `<0xNN>`, or the pieces of one byte of a
    byte-level tokenizer. `special_ids` are the added tokens that are marked special.
    """

    pieces: tuple[str, ...]
    byte_ids: frozenset[int]
    special_ids: frozenset[int]


def read_token_texts(folder: Path) -> Known[TokenTexts]:
    """The texts of the tokenizer in `folder`; unknown without a tokenizer.json, or where it cannot be read."""
    files = Siblings(folder)
    data = files.data(_NAME)
    if data is None:
        far = files.too_far(_NAME)
        return _NEEDS if far is None else far
    parts: dict[str, Any] = {}
    for key, start in _members(data, 0):
        if key == "model":
            parts[key] = _model(data, start)
        elif key in ("added_tokens", "pre_tokenizer", "decoder"):
            parts[key] = _value(data, start)
        if len(parts) == 4:
            break
    model = parts.get("model")
    return _texts(model, parts) if model is not None else Unknown("a tokenizer.json that can be read")


@dataclass(frozen=True)
class _Model:
    vocabulary: Mapping[int, str]
    prefix: str


def _model(data: bytes, start: int) -> _Model | None:
    """The model, read up to its vocabulary: the merges behind it are most of the file."""
    prefix: Any = None
    for key, at in _members(data, start):
        if key == "continuing_subword_prefix":
            prefix = _value(data, at)
        elif key == "vocab":
            found = _plain_vocabulary(data, at)
            if found is None:
                found = _any_vocabulary(_value(data, at))
            return None if found is None else _Model(found, prefix if isinstance(prefix, str) else "")
    return None


def _plain_vocabulary(data: bytes, at: int) -> dict[int, str] | None:
    """A vocabulary as tokenizers write it, in a tenth of the time of `read_json`; None when it is not so plain."""
    opened = data[at : at + 1]
    entry, at = _PIECE_ID if opened == b"{" else _PIECE_SCORE, at + 1
    found: dict[int, str] = {}
    for number in range(_MOST):
        match = entry.match(data, at)
        if match is None:
            return None
        try:
            piece = json.loads(b'"%b"' % match[1]) if b"\\" in match[1] else match[1].decode()
        except ValueError:
            return None
        token = int(match[2]) if opened == b"{" else number
        if token < _MOST:
            found[token] = piece
        if match[3] != b",":
            return found
        at = match.end()
    return None


def _any_vocabulary(vocab: Any) -> dict[int, str] | None:
    if isinstance(vocab, dict):
        return {token: piece for piece, token in vocab.items() if _is_id(token)}
    if not isinstance(vocab, list):
        return None
    rows = ((token, row[0] if isinstance(row, list) and row else row) for token, row in enumerate(vocab[:_MOST]))
    return {token: piece for token, piece in rows if isinstance(piece, str)}


def _texts(model: _Model, parts: Mapping[str, Any]) -> TokenTexts:
    byte_level = _mentions_byte_level(parts.get("pre_tokenizer")) or _mentions_byte_level(parts.get("decoder"))
    texts, single = {}, set()
    for token, piece in model.vocabulary.items():
        if byte_level:
            texts[token] = _from_bytes(piece)
            if len(piece) == 1 and piece in byte_alphabet():
                single.add(token)
        else:
            texts[token] = piece.replace("▁", " ").removeprefix(model.prefix)
            if _BYTE.fullmatch(piece):
                single.add(token)
    special: set[int] = set()
    rows = parts.get("added_tokens")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and _is_id(row.get("id")) and isinstance(row.get("content"), str):
            texts[row["id"]] = row["content"]
            if not byte_level and _BYTE.fullmatch(row["content"]):
                single.add(row["id"])
            elif row.get("special") is True:
                special.add(row["id"])
                single.discard(row["id"])
    pieces = tuple(texts.get(token, "") for token in range(max(texts, default=-1) + 1))
    return TokenTexts(pieces, frozenset(single), frozenset(special))


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _mentions_byte_level(value: Any) -> bool:
    """Whether a pre-tokenizer or decoder, or one in its sequence, is the byte-level one."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if one.get("type") == "ByteLevel":
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False


@cache
def byte_alphabet() -> Mapping[str, int]:
    """The letters that byte-level tokenizers write bytes with (GPT-2, `bytes_to_unicode`), each with its byte.

    Printable bytes stand for themselves; the others are numbered from U+0100 on, in their order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


def _from_bytes(piece: str) -> str:
    """A byte-level piece as text, with `<0xNN>` for bytes that are no whole character; as it is, if it is none."""
    alphabet = byte_alphabet()
    if piece.isascii() and " " not in piece:
        return piece
    try:
        data = bytes(alphabet[c] for c in piece)
    except KeyError:
        return piece
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        marked = data.decode("utf-8", "surrogateescape")
        return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in marked)


def _value(data: bytes, start: int) -> Any:
    """The value at `start`; None when it is damaged."""
    end = _end(data, start)
    return None if end is None else read_json(data[start:end], _NAME, depth=0).value


def _members(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    """The keys of the object at `at` and where their values start; ends where the text is no such object."""
    brace = data.find(b"{", at, at + 100)
    if brace < 0:
        return
    place: int | None = brace + 1
    while place is not None:
        key = _KEY.match(data, place)
        if key is None:
            return
        yield key[1].decode("utf-8", "replace"), key.end()
        place = _end(data, key.end())


def _end(data: bytes, start: int) -> int | None:
    """Where the JSON value at `start` ends, passed over without building it; None when the text ends before."""
    depth, at = 0, start
    if data[start : start + 1] not in (b'"', b"[", b"{"):
        match = _SCALAR_END.search(data, start)
        return match.start() if match else None
    while match := _STRUCTURE.search(data, at):
        at, sign = match.end(), match.group()
        if sign == b'"':
            quote = _quote(data, at)
            if quote is None:
                return None
            at = quote + 1
        else:
            depth += 1 if sign in b"[{" else -1
        if depth <= 0:
            return at
    return None


def _quote(data: bytes, at: int) -> int | None:
    """The quote that closes the string whose text starts at `at`: one after an even number of backslashes."""
    while (quote := data.find(b'"', at)) >= 0:
        before = quote
        while before > at and data[before - 1] == 0x5C:
            before -= 1
        if (quote - before) % 2 == 0:
            return quote
        at = quote + 1
    return None
