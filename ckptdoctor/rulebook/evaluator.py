"""Evaluates expressions over facts: unknown facts stop it, and it remembers which facts it read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckptdoctor.closures import InvalidExpression, IterableTooLong, NumberTooHigh
from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.translating import Reading
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["Evaluator", "TooLargeError"]

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


class TooLargeError(UnknownFactError):
    """An expression ran into the limits of the evaluator: the facts are larger than rules are made for, and so what
    it would say is not known."""

    def __init__(self) -> None:
        super().__init__(Unknown("a smaller checkpoint: this one has more items than the rule can go through"))


class Evaluator:
    """Evaluates the expressions of rules over one set of facts.

    `reads` collects the dotted paths of the facts that were read since the last `forget()`; a fact
    that `and`, `or` or a ternary did not reach is not among them.
    """

    def __init__(self, facts: Mapping[str, object]) -> None:
        self._names: dict[str, object] = {**_CONSTANTS, **facts}
        self._reads: set[str] = set()

    @property
    def reads(self) -> frozenset[str]:
        """The paths of the facts read since `forget()`."""
        return frozenset(self._reads)

    def forget(self) -> None:
        """Starts a new collection of `reads` and unbinds `it`."""
        self._reads = set()
        self._names.pop("it", None)

    def bind(self, item: object) -> None:
        """Makes `item` the value of `it`."""
        self._names["it"] = item

    def value(self, expression: Expression) -> Any:
        """The value of `expression`.

        Raises `UnknownFactError` at the first unknown fact it reaches, `TooLargeError` at the limits of
        expressions, and `ExpressionError` for anything else that goes wrong.
        """
        try:
            return expression.run(self._names, Reading(self._reads))
        except (IterableTooLong, NumberTooHigh):
            raise TooLargeError from None
        except _FAILURES as error:
            raise ExpressionError(
                f"`{show(expression.text)}` cannot be evaluated: {type(error).__name__}: {show(str(error))}"
            ) from error
