"""Evaluates expressions over facts: unknown facts stop it, and it remembers which facts it read."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from simpleeval import EvalWithCompoundTypes, InvalidExpression, IterableTooLong, NumberTooHigh

from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.functions import FUNCTIONS, OPERATORS
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["Evaluator", "TooLargeError"]

_REFUSED = (ast.Assign, ast.AugAssign, ast.Import, ast.JoinedStr, ast.FormattedValue, ast.DictComp)
_FAILURES = (
    InvalidExpression,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
_CONSTANTS = {"True": True, "False": False, "None": None}


class TooLargeError(Exception):
    """An expression ran into the limits of the evaluator: the facts are larger than rules are made for."""


class _Engine(EvalWithCompoundTypes):  # type: ignore[misc]  # simpleeval has no types
    def __init__(self, names: dict[str, object]) -> None:
        super().__init__(operators=dict(OPERATORS), names=names)
        self.functions = dict(FUNCTIONS)
        self.ATTR_INDEX_FALLBACK = False
        for kind in _REFUSED:
            self.nodes.pop(kind, None)
        self.paths: Mapping[ast.AST, str] = {}
        self.reads: set[str] = set()

    def _check_disallowed_items(self, item: object) -> None:
        """Nothing: only the fixed functions can be called, and a walk over every fact would cost seconds."""

    def _eval(self, node: ast.AST) -> Any:
        # Every value passes here, whether it came from a name, an attribute, a subscript, a function or a
        # comprehension, so this is the one place that sees all unknown facts.
        value = super()._eval(node)
        path = self.paths.get(node)
        if path is not None:
            self.reads.add(path)
        if isinstance(value, Unknown):
            raise UnknownFactError(value)
        return value


class Evaluator:
    """Evaluates the expressions of rules over one set of facts.

    `reads` collects the dotted paths of the facts that were read since the last `forget()`; a fact
    that `and`, `or` or a ternary did not reach is not among them.
    """

    def __init__(self, facts: Mapping[str, object]) -> None:
        self._names: dict[str, object] = {**_CONSTANTS, **facts}
        self._engine = _Engine(self._names)

    @property
    def reads(self) -> frozenset[str]:
        """The paths of the facts read since `forget()`."""
        return frozenset(self._engine.reads)

    def forget(self) -> None:
        """Starts a new collection of `reads` and unbinds `it`."""
        self._engine.reads = set()
        self._names.pop("it", None)

    def bind(self, item: object) -> None:
        """Makes `item` the value of `it`."""
        self._names["it"] = item

    def value(self, expression: Expression) -> Any:
        """The value of `expression`.

        Raises `UnknownFactError` at the first unknown fact it reaches, `TooLargeError` at the limits of
        simpleeval, and `ExpressionError` for anything else that goes wrong.
        """
        engine = self._engine
        engine.paths = expression.paths
        engine.names = self._names
        try:
            return engine.eval(expression.text, previously_parsed=expression.node)
        except (IterableTooLong, NumberTooHigh):
            raise TooLargeError from None
        except _FAILURES as error:
            reason = getattr(error, "message", None) or str(error)
            raise ExpressionError(
                f"`{show(expression.text)}` cannot be evaluated: {type(error).__name__}: {show(reason)}"
            ) from error
