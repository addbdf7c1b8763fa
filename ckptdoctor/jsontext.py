"""JSON text for whatever a report holds: plain values of facts, enums, tuples, numpy's numbers, NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

__all__ = ["as_plain", "dumps"]

# Python refuses to write an integer of more than 4300 digits in decimal, and so do most readers.
_LARGEST_BITS = 4096


def dumps(data: object) -> str:
    """JSON in ASCII alone: no foreign character reaches a terminal raw, and lone surrogates survive."""
    return json.dumps(as_plain(data), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def as_plain(value: object) -> Any:
    """`value` made of what JSON knows. Facts may hold more: enums, tuples, numpy numbers, NaN."""
    if isinstance(value, Enum):
        return as_plain(value.value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _LARGEST_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _non_finite(value)
    return _container(value)


def _container(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((as_plain(item) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if callable(convert := getattr(value, "tolist", None)):  # numpy's scalars and arrays
        return as_plain(convert())
    return str(value)


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
