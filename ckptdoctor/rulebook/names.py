"""Checks that every name in an expression is a fact that exists, without evaluating it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ckptdoctor.rulebook.errors import ExpressionError, did_you_mean
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.facttypes import (
    NoSuchFactError,
    attribute_type,
    element_type,
    item_type,
    listed,
    union,
)
from ckptdoctor.text import listing, show

__all__ = ["check_names"]

_SAME_ITEMS = ("sorted", "unique")
_ONE_ITEM = ("max", "min")


def check_names(expression: Expression, names: Mapping[str, object]) -> object:
    """The type of what `expression` gives when the roots have the types `names`; `Any` where nothing is known.

    `it` counts as a root. Raises `ExpressionError` for a name that is no fact.
    """
    return _Names(expression, names).visit(expression.node, {})


class _Names:
    def __init__(self, expression: Expression, roots: Mapping[str, object]) -> None:
        self._text = expression.text
        self._roots = roots

    def visit(self, node: ast.AST, local: Mapping[str, object]) -> object:
        """Checks `node` and all below it; gives its type. `local` are the variables of comprehensions."""
        if isinstance(node, ast.Name):
            return self._name(node.id, local)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, self.visit(node.value, local))
        if isinstance(node, ast.Subscript):
            owner = self.visit(node.value, local)
            self.visit(node.slice, local)
            return owner if isinstance(node.slice, ast.Slice) else item_type(owner)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._comprehension(node, local)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node, node.func.id, local)
        if isinstance(node, ast.Constant):
            return type(node.value)
        kinds = [self.visit(child, local) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.IfExp):
            return union(kinds[1:])
        if isinstance(node, ast.BoolOp):
            return union(kinds[1:])
        if isinstance(node, (ast.Tuple, ast.List)):
            return listed(union(kinds[:-1]))
        return Any

    def _name(self, name: str, local: Mapping[str, object]) -> object:
        for scope in (local, self._roots):
            if name in scope:
                return scope[name]
        known = sorted({*local, *self._roots})
        if name == "it":
            raise self._error("`it` is only there in a rule with for_each")
        raise self._error(f"{show(name)} is not a fact (there are {listing(known, 20)}){did_you_mean(name, known)}")

    def _attribute(self, node: ast.Attribute, owner: object) -> object:
        try:
            return attribute_type(owner, node.attr)
        except NoSuchFactError as error:
            hint = did_you_mean(node.attr, error.options)
            raise self._error(f"{show(ast.unparse(node.value))} has no fact {show(node.attr)}{hint}") from None

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, local: Mapping[str, object]) -> object:
        inner = dict(local)
        for generator in node.generators:
            self._assign(generator.target, element_type(self.visit(generator.iter, inner)), inner)
            for condition in generator.ifs:
                self.visit(condition, inner)
        return listed(self.visit(node.elt, inner))

    def _assign(self, target: ast.expr, kind: object, local: dict[str, object]) -> None:
        if isinstance(target, ast.Name):
            local[target.id] = kind
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._assign(part, element_type(kind), local)
        else:
            raise self._error("a loop variable must be a plain name")

    def _call(self, node: ast.Call, function: str, local: Mapping[str, object]) -> object:
        kinds = [self.visit(argument, local) for argument in node.args]
        for keyword in node.keywords:
            self.visit(keyword.value, local)
        if len(kinds) == 1 and function in _SAME_ITEMS:
            return listed(element_type(kinds[0]))
        if len(kinds) == 1 and function in _ONE_ITEM:
            return element_type(kinds[0])
        return Any

    def _error(self, problem: str) -> ExpressionError:
        return ExpressionError(f"{problem}, in `{show(self._text)}`")
