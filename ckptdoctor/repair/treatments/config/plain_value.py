"""A number or a flag that was written as a text, or a whole number written with decimals, becomes what it says.

Only what can be read in one way is touched: "32", 64.0, "true". A flag that says "false" rests on an assumption,
because Python code takes every text that is not empty for true.
"""

from __future__ import annotations

import re
from typing import Any

from ckptdoctor.facts.config import SIZE_LIMIT
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]

_WHOLE = re.compile(r"([1-9][0-9]{0,12})(\.0{1,8})?", re.ASCII)


def propose(case: Case, key: str) -> Proposed:
    """The value at the dotted `key` as a positive whole number, or as true or false where the field is a flag."""
    writable(case)
    field = case.facts.config.at(key)
    if field is None:
        raise RefusedError("absent", at=key)
    if any(key in places for places in knowledge().fields["flags"].values()):
        flag = _flag(field.value)
        if flag is None:
            raise RefusedError("unclear_flag", at=key, value=field.value)
        return Proposed((SetConfig(key, flag),), subject=key, assumption=None if flag else "says_false")
    size = _size(field.value)
    if size is None:
        raise RefusedError("unclear", at=key, value=field.value)
    return Proposed((SetConfig(key, size),), subject=key)


def _size(value: Any) -> int | None:
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 < value < SIZE_LIMIT else None
    match = _WHOLE.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 64 else None
    size = int(match[1]) if match else 0
    return size if 0 < size < SIZE_LIMIT else None


def _flag(value: Any) -> bool | None:
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
