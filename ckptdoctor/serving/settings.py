"""The draft's config as an engine's code sees it: `getattr` with defaults, after the engine's own translation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simpleeval import SimpleEval

from ckptdoctor.unknown import Known, Unknown, UnknownFactError

__all__ = ["Settings", "evaluate"]


@dataclass(frozen=True)
class Settings:
    """A flat mapping of config keys, dotted access, and the defaults of the config class.

    `stored` are the names of the stored tensors and `target` the target's class (None: not known):
    some engines let them decide what they build.
    """

    values: Mapping[str, Any]
    stored: frozenset[str] = frozenset()
    target: str | None = None

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

    def lists(self, key: str, item: Any) -> bool:
        """Whether the value is a list that holds `item`."""
        value = self.get(key)
        return isinstance(value, list) and item in value

    def stores(self, text: str) -> bool:
        """Whether any stored name contains `text`."""
        return any(text in name for name in self.stored)

    def stores_tensor(self, name: str) -> bool:
        """Whether a tensor of exactly this name is stored."""
        return name in self.stored

    def target_is_none_of(self, *names: str) -> bool:
        """Whether the target's class is known and is none of these."""
        return self.target is not None and self.target not in names

    def _at(self, key: str) -> tuple[bool, Any]:
        value: Any = self.values
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return False, None
            value = value[part]
        return True, value


def evaluate(expression: str | int, symbols: Mapping[str, Any], settings: Settings) -> Known[Any]:
    """A shape, count or condition of a contract. Unknown when it rests on a size that is not known."""
    if isinstance(expression, int):
        return expression
    names = {**symbols, "true": True, "false": False, "null": None}
    functions = {
        "has": settings.has, "get": settings.get, "type_of": settings.type_of, "count": settings.count,
        "stores": settings.stores, "stores_tensor": settings.stores_tensor,
        "target_is_none_of": settings.target_is_none_of, "size": settings.size, "lists": settings.lists, "len": len, "max": max, "min": min, "bool": bool,
    }  # fmt: skip
    missing = [n for n, v in names.items() if isinstance(v, Unknown)]
    engine = SimpleEval(names={n: v for n, v in names.items() if n not in missing}, functions=functions)
    try:
        return engine.eval(str(expression))
    except UnknownFactError as error:
        return error.unknown
    except Exception:
        for name in missing:
            if name in str(expression):
                unknown = names[name]
                if isinstance(unknown, Unknown):
                    return unknown
        raise
