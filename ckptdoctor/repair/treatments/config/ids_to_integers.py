"""Ids of captured layers that were written as a text, or as numbers with decimals, become a list of whole numbers.

The order stays. Only a list that can be read in one way is touched: "[1, 2, 3]", "1,2,3", [1.0, 2.0], ["1", "2"].
"""

from __future__ import annotations

import json
import re
from typing import Any

from ckptdoctor.facts.draft.aux_layers import IDS_LIMIT
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]

_LIST = re.compile(r"\s*-?\d{1,6}\s*(,\s*-?\d{1,6}\s*)+", re.ASCII)
_TEXT_LIMIT = 10_000


def propose(case: Case, key: str) -> Proposed:
    """The ids at the dotted `key` of config.json as a list of integers. Refused for all that is no list of them."""
    writable(case)
    field = case.facts.config.at(key)
    ids = _ids(field.value) if field is not None else None
    if ids is None:
        raise RefusedError("unclear", at=key, value=field.value if field else None)
    return Proposed((SetConfig(key, ids),), subject=key)


def _ids(value: Any) -> list[int] | None:
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, list) or not 0 < len(value) <= IDS_LIMIT:
        return None
    ids = [_id(item) for item in value]
    return [i for i in ids if i is not None] if None not in ids else None


def _parsed(text: str) -> Any:
    if len(text) > _TEXT_LIMIT:
        return None
    if _LIST.fullmatch(text):
        return [int(part) for part in text.split(",")]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _id(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]{1,6}", value.strip(), re.ASCII) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 10**6:
        return None
    return int(value) if float(value).is_integer() else None
