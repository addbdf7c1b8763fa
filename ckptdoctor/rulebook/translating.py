"""Expressions of rules as closures: unknown facts stop them, and they note which facts they read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ckptdoctor.closures import (
    AttributeDoesNotExist,
    FeatureNotAvailable,
    FunctionNotDefined,
    IterableTooLong,
    NameNotDefined,
    Run,
    Translator,
    failing,
)
from ckptdoctor.rulebook.functions import FUNCTIONS, OPERATORS
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["MAX_ITEMS", "Reading", "RuleTranslator"]

MAX_ITEMS = 10_000
"""Items that the comprehensions of one expression go through together."""

_PRIVATE = ("_", "func_")
_NO_ATTRIBUTES = ("format", "format_map", "mro", "tb_frame", "gi_frame", "ag_frame", "cr_frame", "exec")
_HARMFUL = (type, isinstance, eval, getattr, setattr, repr, compile, open, exec, globals, locals)
_ABSENT = object()


@dataclass
class Reading:
    """One evaluation: the paths of the facts that it reads, its items so far, and the names of its comprehensions."""

    reads: set[str]
    items: int = 0
    scopes: dict[int, dict[str, Any]] = field(default_factory=dict)


class RuleTranslator(Translator):
    """The dialect of rules. `paths` says which fact each node reads; the context of a run is a `Reading`."""

    operators = OPERATORS

    def __init__(self, text: str, paths: Mapping[ast.AST, str]) -> None:
        super().__init__(text)
        self._paths = paths
        self._scopes: list[frozenset[str]] = []  # the names of the comprehensions around a node, outermost first
        self.kinds |= {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Slice: self._slice,
            ast.Call: self._call,
            ast.Tuple: lambda node: self._items(node, tuple),
            ast.List: lambda node: self._items(node, list),
            ast.Set: lambda node: self._items(node, set),
            ast.Dict: self._dict,
            ast.ListComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
        }

    def _known(self, node: ast.AST, run: Run) -> Run:
        """`run`, which notes what it read, and stops at what is not known.

        Names, attributes, items and calls are what an unknown fact can come from; all else is made of those.
        """
        path = self._paths.get(node)

        def value(names: Mapping[str, Any], reading: Any) -> Any:
            found = run(names, reading)
            if path is not None:
                reading.reads.add(path)
            if isinstance(found, Unknown):
                raise UnknownFactError(found)
            return found

        return value

    def _name(self, node: ast.Name) -> Run:
        name = node.id
        message = f"'{name}' is not defined for expression '{self.text}'"
        around = [depth for depth, names in enumerate(self._scopes) if name in names][::-1]

        def fact(names: Mapping[str, Any], _reading: Any) -> Any:
            try:
                return names[name]
            except KeyError:
                raise NameNotDefined(message) from None

        def item(names: Mapping[str, Any], reading: Any) -> Any:
            for depth in around:
                # Before a comprehension has an item, its name is that of what is around it.
                scope = reading.scopes[depth]
                if name in scope:
                    return scope[name]
            return fact(names, reading)

        return self._known(node, item if around else fact)

    def _attribute(self, node: ast.Attribute) -> Run:
        attribute = node.attr
        if attribute.startswith(_PRIVATE):
            message = f"Sorry, access to __attributes  or func_ attributes is not available. ({attribute})"
            return failing(FeatureNotAvailable, message)
        if attribute in _NO_ATTRIBUTES:
            return failing(FeatureNotAvailable, f"Sorry, this method is not available. ({attribute})")
        owner = self.run(node.value)
        message = f"Attribute '{attribute}' does not exist in expression '{self.text}'"

        def value(names: Mapping[str, Any], reading: Any) -> Any:
            holder = owner(names, reading)
            try:
                found = getattr(holder, attribute)
            except (AttributeError, TypeError):
                found = _ABSENT
            if found is _ABSENT:
                raise AttributeDoesNotExist(message)
            if isinstance(found, ModuleType):
                raise FeatureNotAvailable("Sorry, modules are not allowed in attribute access")
            if callable(found) and found in _HARMFUL:
                raise FeatureNotAvailable("This function is forbidden")
            return found

        return self._known(node, value)

    def _subscript(self, node: ast.Subscript) -> Run:
        container, key = self.run(node.value), self.run(node.slice)
        return self._known(node, lambda names, reading: container(names, reading)[key(names, reading)])

    def _slice(self, node: ast.Slice) -> Run:
        lower, upper, step = (None if p is None else self.run(p) for p in (node.lower, node.upper, node.step))

        def value(names: Mapping[str, Any], reading: Any) -> slice:
            return slice(*(None if part is None else part(names, reading) for part in (lower, upper, step)))

        return value

    def _call(self, node: ast.Call) -> Run:
        # The reader of expressions has refused everything but the fixed functions; here it is refused once more.
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = FUNCTIONS.get(name)
        if function is None or any(keyword.arg is None for keyword in node.keywords):
            return failing(FunctionNotDefined, f"Function '{name}' not defined, for expression '{self.text}'.")
        arguments = [self.run(argument) for argument in node.args]
        options = [(str(keyword.arg), self.run(keyword.value)) for keyword in node.keywords]

        def value(names: Mapping[str, Any], reading: Any) -> Any:
            # Options before arguments: what is not known there is met first.
            given = {key: option(names, reading) for key, option in options}
            return function(*[argument(names, reading) for argument in arguments], **given)

        return self._known(node, value)

    def _items(self, node: ast.Tuple | ast.List | ast.Set, kind: Callable[..., Any]) -> Run:
        parts = [self.run(part) for part in node.elts]
        return lambda names, reading: kind(part(names, reading) for part in parts)

    def _dict(self, node: ast.Dict) -> Run:
        if None in node.keys:
            return failing(FeatureNotAvailable, "Sorry, ** is not available in this evaluator")
        pairs = [(self.run(k), self.run(v)) for k, v in zip(node.keys, node.values, strict=True) if k is not None]

        def value(names: Mapping[str, Any], reading: Any) -> dict[Any, Any]:
            found = {}
            for key, item in pairs:
                found[key(names, reading)] = item(names, reading)
            return found

        return value

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Run:
        """All items at once, whether the comprehension stands in brackets or not."""
        depth = len(self._scopes)
        targets = [part for generator in node.generators for part in ast.walk(generator.target)]
        self._scopes.append(frozenset(part.id for part in targets if isinstance(part, ast.Name)))
        loops = [
            (self.run(generator.iter), _setter(generator.target), [self.run(test) for test in generator.ifs])
            for generator in node.generators
        ]
        element = self.run(node.elt)
        self._scopes.pop()

        def value(names: Mapping[str, Any], reading: Any) -> list[Any]:
            found: list[Any] = []
            scope: dict[str, Any] = {}
            reading.scopes[depth] = scope

            def go(at: int) -> None:
                source, bind, tests = loops[at]
                for item in source(names, reading):
                    reading.items += 1
                    if reading.items > MAX_ITEMS:
                        raise IterableTooLong("Comprehension generates too many elements")
                    bind(scope, item)
                    if not all(test(names, reading) for test in tests):
                        continue
                    if at + 1 < len(loops):
                        go(at + 1)
                    else:
                        found.append(element(names, reading))

            go(0)
            return found

        return value


def _setter(target: ast.AST) -> Callable[[dict[str, Any], Any], None]:
    """What binds the names of a target, which may be nested, to an item."""
    if isinstance(target, ast.Name):
        name = target.id

        def bind(scope: dict[str, Any], item: Any) -> None:
            scope[name] = item

        return bind
    parts: Sequence[ast.AST] | None = getattr(target, "elts", None)
    if parts is None:
        kind = type(target).__name__

        def refuse(_scope: dict[str, Any], _item: Any) -> None:
            raise AttributeError(f"'{kind}' object has no attribute 'elts'")

        return refuse
    setters = [_setter(part) for part in parts]

    def unpack(scope: dict[str, Any], item: Any) -> None:
        for setter, value in zip(setters, item, strict=False):
            setter(scope, value)

    return unpack
