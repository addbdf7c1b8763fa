"""Texts with `{placeholders}`: how rules put the values of facts into words and evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.evaluator import Evaluator
from ckptdoctor.rulebook.expressions import Expression, compile_expression
from ckptdoctor.rulebook.functions import Shown
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["Template", "compile_template", "json_safe", "printed"]

_NUMBERS_SHOWN = 16
_BITS_SHOWN = 1024
_EVIDENCE_ITEMS = 100
_EVIDENCE_DEPTH = 6
_EVIDENCE_TEXT = 1_000


@dataclass(frozen=True, eq=False)
class Template:
    """A text whose placeholders are compiled: literal texts and expressions in turn."""

    parts: tuple[str | Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the placeholders, in their order."""
        return tuple(part for part in self.parts if isinstance(part, Expression))

    def fill(self, evaluator: Evaluator) -> str:
        """The text with every value printed harmlessly; an unknown fact prints as `unknown`.

        A sentence that is left out (an empty value between two spaces) takes one of the spaces with it.
        """
        text = ""
        gap = False
        for part in self.parts:
            more = part if isinstance(part, str) else _filled(part, evaluator)
            if gap and more.startswith(" "):
                more = more[1:]
            gap = (gap and not more) or (not more and text[-1:] in ("", " "))
            text += more
        return text

    def fill_or_none(self, evaluator: Evaluator) -> str | None:
        """The text, or None when one of its values is None or unknown."""
        texts = []
        for part in self.parts:
            if isinstance(part, Expression):
                try:
                    value = evaluator.value(part)
                except UnknownFactError:
                    return None
                if value is None:
                    return None
                texts.append(printed(value))
            else:
                texts.append(part)
        return "".join(texts)


def _filled(expression: Expression, evaluator: Evaluator) -> str:
    try:
        return printed(evaluator.value(expression))
    except UnknownFactError:
        return "unknown"


def compile_template(text: str) -> Template:
    """Splits `text` at its placeholders and compiles them. Raises `ExpressionError`."""
    return Template(tuple(_parts(text)))


def _parts(text: str) -> Iterator[str | Expression]:
    literal = ""
    position = 0
    while position < len(text):
        char = text[position]
        if char in "{}" and text[position + 1 : position + 2] == char:
            literal += char
            position += 2
        elif char == "}":
            raise ExpressionError(f"`{show(text)}` has a }} without its {{ (write }}}} for the character itself)")
        elif char == "{":
            end = _closing_brace(text, position)
            if literal:
                yield _literal(literal)
                literal = ""
            yield compile_expression(text[position + 1 : end])
            position = end + 1
        else:
            literal += char
            position += 1
    if literal:
        yield _literal(literal)


def _literal(text: str) -> str:
    text = re.sub(r"\s*\n\s*", " ", text)
    return show(text, limit=len(text))


def _closing_brace(text: str, start: int) -> int:
    """The position of the brace that closes the one at `start`; braces within quotes do not count."""
    depth = 0
    quote = ""
    for position in range(start, len(text)):
        char = text[position]
        if quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
    raise ExpressionError(f"`{show(text)}` has a {{ without its }} (write {{{{ for the character itself)")


def printed(value: object) -> str:
    """`value` in words that are safe to print: numbers as `[2, 30, 58]`, other lists as `a, b and c`. Never raises."""
    if isinstance(value, Shown):
        return str(value)
    if isinstance(value, Unknown):
        return "unknown"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, int) and value.bit_length() > _BITS_SHOWN:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return listing(f"{printed(key)}: {printed(item)}" for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            more = len(value) - _NUMBERS_SHOWN
            shown = ", ".join(printed(item) for item in value[:_NUMBERS_SHOWN])
            return f"[{shown}, … {more} more]" if more > 0 else f"[{shown}]"
        return listing(printed(item) for item in value)
    return show(value)


def json_safe(value: object, depth: int = _EVIDENCE_DEPTH) -> Any:
    """`value` as JSON can hold it: plain numbers, texts, lists and mappings, long ones cut and saying so."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _BITS_SHOWN else printed(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if depth > 0:
        if is_dataclass(value) and not isinstance(value, (type, Unknown)):
            value = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Mapping):
            pairs = list(value.items())[:_EVIDENCE_ITEMS]
            mapping = {show(key): json_safe(item, depth - 1) for key, item in pairs}
            return mapping | ({"…": f"{len(value) - len(pairs)} more"} if len(value) > len(pairs) else {})
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=str)
        if isinstance(value, (list, tuple)):
            items = [json_safe(item, depth - 1) for item in value[:_EVIDENCE_ITEMS]]
            return items + ([f"… {len(value) - len(items)} more"] if len(value) > len(items) else [])
    return printed(value) if isinstance(value, (Unknown, Shown)) else show(value, _EVIDENCE_TEXT)
