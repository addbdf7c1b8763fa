"""The draft's config as an engine's code sees it: `getattr` with defaults, after the engine's own translation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from simpleeval import IterableTooLong, NumberTooHigh, SimpleEval

from ckptdoctor.unknown import Known, Unknown, UnknownFactError

__all__ = ["Settings", "evaluate"]


@dataclass(frozen=True)
class Settings:
    """A flat mapping of config keys, dotted access, and the defaults of the config class.

    `stored` are the names of the stored tensors and `target` the target's class (None: not known):
    some engines let them decide what they build. `path` is the folder, whose name decides in some engines who reads it.
    """

    values: Mapping[str, Any]
    stored: frozenset[str] = frozenset()
    target: str | None = None
    path: str = ""

    def has(self, key: str) -> bool:
        """Whether the key is there, null or not."""
        found, _ = self._at(key)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """The value at the dotted key, or `default` when it is not there."""
        found, value = self._at(key)
        return value if found else default

    def first(self, keys: list[str], default: Any = None) -> Any:
        """The first value that is there and not null."""
        for key in keys:
            value = self.get(key)
            if value is not None:
                return value
        return default

    def type_of(self, key: str) -> str:
        """What kind of value the key holds: `absent`, `null`, `dict`, `list`, `str`, `bool`, `int` or `float`."""
        found, value = self._at(key)
        if value is None:
            return "null" if found else "absent"
        return "dict" if isinstance(value, Mapping) else type(value).__name__

    def count(self, key: str) -> int:
        """How many entries the mapping or list at the key has; 0 for anything else."""
        value = self.get(key)
        return len(value) if isinstance(value, (Mapping, list)) else 0

    def size(self, key: str, default: Any = None) -> int:
        """The size at the dotted key. Raises `UnknownFactError` where none is given."""
        value = self.get(key, default)
        if type(value) is not int or not 0 < value < 2**40:
            raise UnknownFactError(Unknown(f"{key} in config.json"))
        return value

    def given(self, key: str) -> Any:
        """The value at the dotted key, null or not. Raises `UnknownFactError` where the key is absent."""
        found, value = self._at(key)
        if not found:
            raise UnknownFactError(Unknown(f"{key} in config.json"))
        return value

    def lists(self, key: str, item: Any) -> bool:
        """Whether the value is a list that holds `item`."""
        value = self.get(key)
        return isinstance(value, list) and item in value

    def lists_only(self, key: str, *names: str) -> bool:
        """Whether the value is a list of nothing but these texts."""
        value = self.get(key)
        return isinstance(value, list) and all(isinstance(item, str) and item in names for item in value)

    def total(self, key: str) -> int:
        """The sum of the whole numbers in the list at the key. Raises `UnknownFactError` for anything else."""
        value = self.get(key)
        if not isinstance(value, list) or not all(type(v) is int and 0 <= v < 2**20 for v in value):
            raise UnknownFactError(Unknown(f"{key} in config.json"))
        return sum(value)

    def stores(self, text: str) -> bool:
        """Whether any stored name contains `text`."""
        return any(text in name for name in self.stored)

    def stores_tensor(self, name: str) -> bool:
        """Whether a tensor of exactly this name is stored."""
        return name in self.stored

    def target_is_none_of(self, *names: str) -> bool:
        """Whether the target's class is known and is none of these."""
        return self.target is not None and self.target not in names

    def in_name(self, word: str) -> bool:
        """Whether the name of the folder, the last part of its path, holds the word, in whatever case."""
        return word in self.path.rstrip("/").rpartition("/")[2].lower()

    def in_path(self, word: str) -> bool:
        """Whether the path of the folder, as the person named it, holds the word, in whatever case."""
        return word in self.path.lower()

    @staticmethod
    def one_of(value: Any, *names: str) -> bool:
        """Whether the value is one of these texts."""
        return isinstance(value, str) and value in names

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The functions that conditions of a contract may call."""
        return {
            "has": self.has, "get": self.get, "type_of": self.type_of, "count": self.count, "stores": self.stores,
            "stores_tensor": self.stores_tensor, "target_is_none_of": self.target_is_none_of, "size": self.size,
            "in_name": self.in_name, "in_path": self.in_path, "given": self.given, "lists": self.lists,
            "lists_only": self.lists_only, "total": self.total, "one_of": self.one_of,
            "len": len, "max": max, "min": min, "bool": bool,
        }  # fmt: skip

    def _at(self, key: str) -> tuple[bool, Any]:
        value: Any = self.values
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return False, None
            value = value[part]
        return True, value


class _Names(dict[str, Any]):
    """Symbols for one evaluation; reaching one that is not known ends it."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Unknown):
            raise UnknownFactError(value)
        return value


_CONSTANTS = {"true": True, "false": False, "null": None}
_ENGINE = SimpleEval()


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> Any:
    return SimpleEval.parse(expression)


def evaluate(expression: str | int, symbols: Mapping[str, Any], settings: Settings) -> Known[Any]:
    """A shape, count or condition of a contract. Unknown when it rests on a size that is not known."""
    if isinstance(expression, int):
        return expression
    if expression in symbols:
        return symbols[expression]
    _ENGINE.names = _Names(symbols, **_CONSTANTS)
    _ENGINE.functions = settings.functions
    try:
        return _ENGINE.eval(expression, previously_parsed=_parsed(expression))
    except UnknownFactError as error:
        return error.unknown
    except (TypeError, ValueError, ArithmeticError, NumberTooHigh, IterableTooLong):
        return Unknown("a value of another kind in config.json")
