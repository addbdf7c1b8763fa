"""The draft's config as an engine's code sees it: `getattr` with defaults, after the engine's own translation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ckptdoctor.closures import (
    FeatureNotAvailable,
    FunctionNotDefined,
    IterableTooLong,
    NameNotDefined,
    NumberTooHigh,
    Run,
    Translator,
    failing,
)
from ckptdoctor.unknown import Known, Unknown, UnknownFactError

__all__ = ["Settings", "evaluate"]


@dataclass(frozen=True)
class Settings:
    """A flat mapping of config keys, dotted access, and the defaults of the config class.

    `stored` are the names of the stored tensors and `target` the target's class (None: not known):
    some engines let them decide what they build. `path` is the folder, whose name decides in some engines who reads it.
    """

    values: Mapping[str, Any]
    stored: frozenset[str] = field(default=frozenset(), repr=False)
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
        return "dict" if _is_mapping(value) else type(value).__name__

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

    def _at(self, key: str) -> tuple[bool, Any]:
        value: Any = self.values
        for part in _parts(key):
            if not _is_mapping(value) or part not in value:
                return False, None
            value = value[part]
        return True, value


@lru_cache(maxsize=4096)
def _parts(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


_OF_JSON = frozenset({str, int, float, bool, list, type(None)})


def _is_mapping(value: Any) -> bool:
    # Nearly all values are those of a JSON file, of which dict alone is a mapping; asking the ABC costs more.
    kind = type(value)
    return kind is dict or (kind not in _OF_JSON and isinstance(value, Mapping))


_METHODS: Mapping[str, Callable[..., Any]] = {
    "has": Settings.has, "get": Settings.get, "type_of": Settings.type_of, "count": Settings.count,
    "stores": Settings.stores, "stores_tensor": Settings.stores_tensor,
    "target_is_none_of": Settings.target_is_none_of, "size": Settings.size, "in_name": Settings.in_name,
    "in_path": Settings.in_path, "given": Settings.given, "lists": Settings.lists, "lists_only": Settings.lists_only,
    "total": Settings.total,
}  # fmt: skip
"""The functions of conditions that ask the settings."""

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "one_of": Settings.one_of, "len": len, "max": max, "min": min, "bool": bool,
}  # fmt: skip
"""The functions of conditions that need nothing but their arguments."""

_CONSTANTS = {"true": True, "false": False, "null": None}


class _Translator(Translator):
    """The dialect of contracts: names are symbols, and reaching one that is not known ends the evaluation; the context
    of a run is the settings."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kinds |= {ast.Expr: self._statement, ast.Name: self._name, ast.Call: self._call}

    def _statement(self, node: ast.Expr) -> Run:
        return self.run(node.value)

    def _name(self, node: ast.Name) -> Run:
        name = node.id
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _names, _settings: constant
        message = f"'{name}' is not defined for expression '{self.text}'"

        def symbol(names: Mapping[str, Any], _settings: Any) -> Any:
            try:
                value = names[name]
            except KeyError:
                raise NameNotDefined(message) from None
            if isinstance(value, Unknown):
                raise UnknownFactError(value)
            return value

        return symbol

    def _call(self, node: ast.Call) -> Run:
        if not isinstance(node.func, ast.Name) or node.keywords:
            return failing(FeatureNotAvailable, f"Sorry, only {', '.join((*_METHODS, *_FUNCTIONS))} can be called")
        name = node.func.id
        arguments = tuple(self.run(argument) for argument in node.args)
        constants = tuple(argument.value for argument in node.args if isinstance(argument, ast.Constant))
        fixed = len(constants) == len(node.args)
        if name in _METHODS:
            method = _METHODS[name]
            if fixed:
                return lambda _names, settings: method(settings, *constants)
            return lambda names, settings: method(settings, *[value(names, settings) for value in arguments])
        if name in _FUNCTIONS:
            function = _FUNCTIONS[name]
            return lambda names, settings: function(*[value(names, settings) for value in arguments])
        return failing(FunctionNotDefined, f"Function '{name}' not defined, for expression '{self.text}'.")


@lru_cache(maxsize=4096)
def _translated(expression: str) -> Run:
    return _Translator(expression).run(ast.parse(expression.strip()).body[0])


def evaluate(expression: str | int, symbols: Mapping[str, Any], settings: Settings) -> Known[Any]:
    """A shape, count or condition of a contract. Unknown when it rests on a size that is not known."""
    if isinstance(expression, int):
        return expression
    if expression in symbols:
        return symbols[expression]
    try:
        return _translated(expression)(symbols, settings)
    except UnknownFactError as error:
        return error.unknown
    except (TypeError, ValueError, ArithmeticError, NumberTooHigh, IterableTooLong):
        return Unknown("a value of another kind in config.json")
