"""The tokens of single bytes and of single digits, found in a tokenizer.json without building its vocabulary.

Text that no other token covers is written in them: a draft that lacks them is lost in rare scripts, and in numbers
where the tokenizer has one token for each digit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.checkpoint.siblings import Siblings
from ckptdoctor.facts.tokenizer.token_texts import byte_alphabet
from ckptdoctor.unknown import Known, Unknown

__all__ = ["NEVER_WRITTEN", "SinglePieces", "read_single_pieces"]

NEVER_WRITTEN = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})
"""Bytes that no UTF-8 text has."""

_NEEDS = Unknown("a tokenizer.json beside the target or the draft")
_MOST = 2**21
# A key of one character, or `<0xNN>`, and its id.
_SHORT = re.compile(
    rb'"([^"\\\x80-\xff]|[\xc2-\xdf][\x80-\xbf]|\\["\\/]|\\u0[01][0-9a-fA-F]{2}|<0x[0-9A-F]{2}>)"\s*:\s*([0-9]{1,9})'
)
_MERGES = re.compile(rb'"merges"\s*:\s*\[')
_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class SinglePieces:
    """`bytes`: byte → id of its token, of a byte-level vocabulary or of a byte fallback; empty for a tokenizer that has
    neither. `digits`: ids of the tokens `0` to `9`, ascending, as far as there are any."""

    bytes: dict[int, int]
    digits: tuple[int, ...]


def read_single_pieces(folder: Path) -> Known[SinglePieces]:
    """The single pieces of the tokenizer in `folder`; unknown without a tokenizer.json with a vocabulary by text."""
    files = Siblings(folder)
    data = files.data("tokenizer.json")
    if data is None:
        far = files.too_far("tokenizer.json")
        return _NEEDS if far is None else far
    start = data.find(b'"vocab"')
    found: dict[str, int] = {}
    merges = _MERGES.search(data, max(start, 0))
    end = merges.start() if merges else len(data)
    for match in _SHORT.finditer(data, start, end) if start >= 0 else ():
        try:
            piece = json.loads(b'"%b"' % match[1])
        except ValueError:
            continue
        if int(match[2]) < _MOST:
            found.setdefault(piece, int(match[2]))
    if not found:
        return Unknown("a tokenizer.json with a vocabulary by text")
    fallback = {int(m[1], 16): token for piece, token in found.items() if (m := _FALLBACK.fullmatch(piece))}
    if not fallback and b'"ByteLevel"' in data:
        fallback = {byte_alphabet()[piece]: token for piece, token in found.items() if piece in byte_alphabet()}
    digits = tuple(sorted(token for piece, token in found.items() if piece in "0123456789"))
    return SinglePieces(fallback, digits)
