"""The draft's config as fields: each under one name, whatever the dialect calls it and wherever it stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import JsonDocument
from ckptdoctor.facts.knowledge import Knowledge

__all__ = ["Config", "Field", "Malformed", "with_value"]

SIZE_LIMIT = 2**40
"""No size of a model is larger; keeps arithmetic with hostile configs small."""


@dataclass(frozen=True)
class Field:
    """A value of the config with the place it was read at: dotted `key`, `line` from 1."""

    value: Any
    key: str
    line: int | None


@dataclass(frozen=True)
class Malformed:
    """A size that is no positive whole number, or a flag that is neither true nor false."""

    key: str
    line: int | None
    value: Any
    expected: str

    @property
    def text(self) -> str:
        """The value as it stands in the file, quotes and all."""
        return json.dumps(self.value, ensure_ascii=True, default=str)


def with_value(value: Any, path: Sequence[str], new: Any) -> dict[str, Any]:
    """A copy of the object `value` with `new` at `path`; what is no object on the way becomes one."""
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: with_value(inner.get(path[0]), path[1:], new) if len(path) > 1 else new}


class Config:
    """Lookup in a config by normalised name. An absent or unreadable config has no fields."""

    def __init__(self, document: JsonDocument | None, known: Knowledge) -> None:
        self.document = document
        self._known = known
        self.malformed: list[Malformed] = []

    @property
    def present(self) -> bool:
        """Whether there is a config.json that could be read."""
        return self.document is not None and self.document.readable

    def at(self, key: str) -> Field | None:
        """The field at the dotted `key`; None when it is absent or null."""
        if self.document is None:
            return None
        value: Any = self.document.object
        path = tuple(key.split("."))
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return None
            value = value[part]
        return None if value is None else Field(value, key, self.document.line(*path))

    def all_of(self, keys: Sequence[str]) -> list[Field]:
        """Every field that is there, in the order of `keys`."""
        return [field for key in keys if (field := self.at(key)) is not None]

    def size(self, name: str) -> Field | None:
        """The size `name` (see rules/facts/fields.yaml) as a positive int; what is none is kept in `malformed`."""
        for field in self.all_of(self._known.fields["sizes"][name]):
            if type(field.value) is int and 0 < field.value < SIZE_LIMIT:
                return field
            self._malformed(field, "a positive whole number")
        return None

    def number(self, key: str, *, whole: bool = False) -> Field | None:
        """The positive (with `whole`: whole) number at the dotted `key`; what is none is kept in `malformed`."""
        field = self.at(key)
        if field is None:
            return None
        good = type(field.value) in (int, float) and 0 < field.value < 2**63
        if good and (not whole or float(field.value).is_integer()):
            return field
        self._malformed(field, "a positive whole number" if whole else "a positive number")
        return None

    def mapping(self, key: str) -> Field | None:
        """The object at the dotted `key`; what is none is kept in `malformed`."""
        field = self.at(key)
        if field is None or isinstance(field.value, dict):
            return field
        self._malformed(field, "an object")
        return None

    def flag(self, name: str) -> Field | None:
        """The flag `name` as a bool; what is none is kept in `malformed`."""
        for field in self.all_of(self._known.fields["flags"][name]):
            if isinstance(field.value, bool):
                return field
            self._malformed(field, "true or false")
        return None

    def _malformed(self, field: Field, expected: str) -> None:
        fault = Malformed(field.key, field.line, field.value, expected)
        if fault not in self.malformed:
            self.malformed.append(fault)
