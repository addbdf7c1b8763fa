"""Expressions as nested closures: a syntax tree is translated once, and then called for each set of values.

Only the kinds of nodes that a dialect names are translated; every other one fails when it is reached, and nothing is
ever given to `eval`. What values mean, and which functions there are, is the dialect's: serving/settings.py for
contracts, rulebook/evaluator.py for rules. The semantics are those of simpleeval, to which tests hold both.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "OPERATORS",
    "AttributeDoesNotExist",
    "FeatureNotAvailable",
    "FunctionNotDefined",
    "InvalidExpression",
    "IterableTooLong",
    "NameNotDefined",
    "NumberTooHigh",
    "OperatorNotDefined",
    "Run",
    "Translator",
    "failing",
]

MAX_LENGTH = 100_000
"""Items of a text or list that an operator makes."""

MAX_POWER = 4_000_000
"""The largest base and exponent of a power."""

Run = Callable[[Mapping[str, Any], Any], Any]
"""`run(names, context)`: the value of a node. What the context is, a dialect says."""


# Reports name these kinds of failures by their names, which are simpleeval's.
class InvalidExpression(Exception):  # noqa: N818
    """An expression cannot be evaluated."""


class NameNotDefined(InvalidExpression):
    """A name stands for nothing."""


class FunctionNotDefined(InvalidExpression):
    """A function is none of those that there are."""


class OperatorNotDefined(InvalidExpression):
    """An operator is none of those that there are."""


class AttributeDoesNotExist(InvalidExpression):
    """A value has no such attribute."""


class FeatureNotAvailable(InvalidExpression):
    """A kind of syntax that expressions do not have."""


class NumberTooHigh(InvalidExpression):
    """A power would take very long."""


class IterableTooLong(InvalidExpression):
    """A text or list would be longer than any expression needs."""


def _add(left: Any, right: Any) -> Any:
    if hasattr(left, "__len__") and hasattr(right, "__len__") and len(left) + len(right) > MAX_LENGTH:
        raise IterableTooLong("Sorry, adding those two together would make something too long.")
    return left + right


def _multiply(left: Any, right: Any) -> Any:
    if hasattr(left, "__len__") and right * len(left) > MAX_LENGTH:
        raise IterableTooLong("Sorry, I will not evaluate something that long.")
    if hasattr(right, "__len__") and left * len(right) > MAX_LENGTH:
        raise IterableTooLong("Sorry, I will not evaluate something that long.")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if abs(base) > MAX_POWER or abs(exponent) > MAX_POWER:
        raise NumberTooHigh(f"Sorry! I don't want to evaluate {base} ** {exponent}")
    return base**exponent


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
"""The operators of expressions, with limits where one could ask for gigabytes."""


class Translator:
    """Translates the nodes that all dialects share; a dialect adds names, calls and what else it has.

    `text` is the whole expression, for the messages of failures.
    """

    operators: Mapping[type[ast.AST], Callable[..., Any]] = OPERATORS

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: dict[type[ast.AST], Callable[[Any], Run]] = {
            ast.Constant: self._constant,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.BoolOp: self._bool,
            ast.Compare: self._compare,
            ast.IfExp: self._if,
        }

    def run(self, node: ast.AST) -> Run:
        """`node` as a closure. One of a kind that the dialect does not have fails when it is called."""
        translate = self.kinds.get(type(node))
        if translate is None:
            name = type(node).__name__
            return failing(FeatureNotAvailable, f"Sorry, {name} is not available in this evaluator")
        return translate(node)

    def _operator(self, node: ast.AST) -> Callable[..., Any] | None:
        return self.operators.get(type(node))

    def _constant(self, node: ast.Constant) -> Run:
        value = node.value
        return lambda _names, _context: value

    def _unary(self, node: ast.UnaryOp) -> Run:
        apply, operand = self._operator(node.op), self.run(node.operand)
        if apply is None:
            return self._no_operator(node.op)
        return lambda names, context: apply(operand(names, context))

    def _binary(self, node: ast.BinOp) -> Run:
        apply, left, right = self._operator(node.op), self.run(node.left), self.run(node.right)
        if apply is None:
            return self._no_operator(node.op)
        return lambda names, context: apply(left(names, context), right(names, context))

    def _no_operator(self, node: ast.AST) -> Run:
        return failing(OperatorNotDefined, f"Operator '{type(node).__name__}' does not exist in '{self.text}'")

    def _bool(self, node: ast.BoolOp) -> Run:
        parts = tuple(self.run(value) for value in node.values)
        every, last = parts[:-1], parts[-1]

        def conjunction(names: Mapping[str, Any], context: Any) -> Any:
            for part in every:
                value = part(names, context)
                if not value:
                    return value
            return last(names, context)

        def disjunction(names: Mapping[str, Any], context: Any) -> Any:
            for part in every:
                value = part(names, context)
                if value:
                    return value
            return last(names, context)

        return conjunction if isinstance(node.op, ast.And) else disjunction

    def _compare(self, node: ast.Compare) -> Run:
        first = self.run(node.left)
        pairs = [(self._operator(op), self.run(value)) for op, value in zip(node.ops, node.comparators, strict=True)]
        if any(apply is None for apply, _ in pairs):
            return self._no_operator(node.ops[0])
        rest: list[tuple[Any, Run]] = list(pairs)
        if len(rest) == 1:
            apply, second = rest[0]
            return lambda names, context: apply(first(names, context), second(names, context))

        def chain(names: Mapping[str, Any], context: Any) -> Any:
            right, holds = first(names, context), True
            for apply, value in rest:
                if not holds:
                    break
                left, right = right, value(names, context)
                holds = apply(left, right)
            return holds

        return chain

    def _if(self, node: ast.IfExp) -> Run:
        test, body, other = self.run(node.test), self.run(node.body), self.run(node.orelse)
        return lambda names, context: body(names, context) if test(names, context) else other(names, context)


def failing(kind: type[InvalidExpression], message: str) -> Run:
    """A closure that fails: what cannot be evaluated does no harm where it is not reached."""

    def fail(_names: Mapping[str, Any], _context: Any) -> Any:
        raise kind(message)

    return fail
