"""JSON files of the copy as text: in the style of the source, with exactly the values that engines read from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ckptdoctor.checkpoint import read_json
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["json_bytes"]

_INDENT = re.compile(rb'[{\[]\s*?\r?\n([ \t]+)"')


def json_bytes(value: Mapping[str, Any], before: bytes, name: str, *, check: bool = True) -> bytes:
    """`value` as the text of the file `name`, indented and ended as its former text `before` was.

    With `check`, `before` must mean to Python's json (which engines use) what it means to our reader: else a value
    that nobody wanted to change would change. Raises `CannotExamineError` when it does not.
    """
    if before and check and not _read_alike(before, name):
        raise CannotExamineError(
            f"{show(name)} holds values that could not be written again as they are (a number too large, or nested too"
            " deeply); correct it by hand first"
        )
    found = _INDENT.search(before)
    indent: str | int = 2 if found is None else found[1].decode()
    end = "\n" if not before or before.rstrip(b" \t").endswith(b"\n") else ""
    try:
        return (json.dumps(value, indent=indent, ensure_ascii=before.isascii()) + end).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which stands in the source as an escape
        return (json.dumps(value, indent=indent) + end).encode()


def _read_alike(before: bytes, name: str) -> bool:
    try:
        theirs = json.loads(before.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    ours = read_json(before, name)
    return ours.readable and repr(theirs) == repr(ours.value)
