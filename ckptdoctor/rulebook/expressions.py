"""The expressions of rules: what of Python's syntax they may use, and which facts each of their parts reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ckptdoctor.closures import Run
from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.functions import FUNCTIONS, OPERATORS
from ckptdoctor.rulebook.translating import RuleTranslator
from ckptdoctor.text import listing, show

__all__ = ["Expression", "compile_expression", "element_path"]

_LONGEST = 2_000
_DEEPEST = 40

_SYNTAX = frozenset((
    ast.BoolOp, ast.And, ast.Or, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp,
    ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Load, ast.Store, ast.Constant,
    ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.comprehension,
    ast.Call, ast.keyword, *OPERATORS,
))  # fmt: skip

_WORDS = {ast.JoinedStr: "text with an f in front", ast.Lambda: "a lambda", ast.NamedExpr: "an assignment (:=)"}

Scope = Mapping[str, "str | None"]


@dataclass(frozen=True, eq=False)
class Expression:
    """A checked expression: its text, its syntax tree, and the fact path that each node of the tree reads."""

    text: str
    node: ast.expr
    paths: Mapping[ast.AST, str]

    @cached_property
    def run(self) -> Run:
        """The expression as a closure over the names and a `Reading`."""
        return RuleTranslator(self.text, self.paths).run(self.node)

    def leading_conditions(self) -> tuple[Expression, ...]:
        """The first conditions of an `and` that hold or fail for all items alike, because they do not use `it`."""
        node = self.node
        parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        leading = []
        for part in parts:
            if _reads_item(part):
                break
            leading.append(Expression(self.text, part, self.paths))
        return tuple(leading)


def compile_expression(text: str, item: str | None = None) -> Expression:
    """Parses and checks `text`; `item` is the fact path that `it` stands for. Raises `ExpressionError`."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression may have {_LONGEST} characters, this one has {len(text)}")
    # Folded YAML text may keep line ends, which Python would take for the end of the expression.
    source = text.strip().replace("\n", " ")
    try:
        node = ast.parse(source, mode="eval").body
        reader = _Reader(source)
        reader.read(node, {"it": item})
    except SyntaxError as error:
        raise ExpressionError(f"{_quoted(source)} is not an expression ({error.msg})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"{_quoted(source)} cannot be read as an expression") from None
    return Expression(source, node, MappingProxyType(reader.paths))


def element_path(expression: Expression) -> str | None:
    """The fact path of one item of the list that `expression` gives; None when it is no plain fact."""
    return _element_path(expression.node, {"it": None})


def _quoted(source: str) -> str:
    return f"`{show(source)}`"


def _reads_item(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "it" for part in ast.walk(node))


class _Reader:
    """Walks a syntax tree once: refuses what rules cannot use, and notes which fact each node reads."""

    def __init__(self, source: str) -> None:
        self.paths: dict[ast.AST, str] = {}
        self._source = source

    def read(self, node: ast.AST, scope: Scope, depth: int = 0) -> None:
        """Checks `node` and all below it. Raises `ExpressionError`."""
        if depth > _DEEPEST:
            raise self._error("is nested too deeply")
        kind = type(node)
        if kind not in _SYNTAX:
            raise self._error(f"uses {_WORDS.get(kind, kind.__name__)}, which rules cannot")
        problem = _problem(node)
        if problem:
            raise self._error(problem)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and (path := _path(node, scope)) is not None:
            self.paths[node] = path
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            scope = _inner_scope(node, scope)
        for name in node._fields:
            # The name of a function is no fact, and what is left out here has nothing below it.
            if name == "ctx" or (name == "func" and kind is ast.Call):
                continue
            part = getattr(node, name)
            for child in part if isinstance(part, list) else (part,):
                if isinstance(child, ast.AST):
                    self.read(child, scope, depth + 1)

    def _error(self, problem: str) -> ExpressionError:
        return ExpressionError(f"{_quoted(self._source)} {problem}")


def _problem(node: ast.AST) -> str | None:
    """What rules cannot do with a kind of node that they may use."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name):
            return f"calls a method; rules can only call {_functions()}"
        if node.func.id not in FUNCTIONS:
            return f"calls {show(node.func.id)}; rules can only call {_functions()}"
        if any(keyword.arg is None for keyword in node.keywords):
            return "spreads arguments with **"
    elif isinstance(node, ast.Attribute):
        if node.attr.startswith("_"):
            return f"reads {show(node.attr)}; names that start with _ are private"
    elif isinstance(node, ast.Name):
        if node.id in FUNCTIONS:
            return f"names the function {node.id} without calling it"
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, (str, int, float, type(None))):
            return f"holds {show(ast.unparse(node), 40)}; the values are texts, numbers, True, False and None"
    elif isinstance(node, ast.Dict) and None in node.keys:
        return "spreads a mapping with **"
    return None


def _functions() -> str:
    return listing(FUNCTIONS, len(FUNCTIONS))


def _path(node: ast.expr, scope: Scope) -> str | None:
    if isinstance(node, ast.Name):
        return scope.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = _path(node.value, scope)
        return None if owner is None else f"{owner}.{node.attr}"
    if isinstance(node, ast.Subscript):
        owner = _path(node.value, scope)
        # A slice is a shorter list of the same facts.
        return owner if owner is None or isinstance(node.slice, ast.Slice) else f"{owner}[]"
    return None


def _element_path(node: ast.expr, scope: Scope) -> str | None:
    if isinstance(node, ast.Call):
        same_items = isinstance(node.func, ast.Name) and node.func.id in ("sorted", "unique")
        return _element_path(node.args[0], scope) if same_items and node.args else None
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _path(node.elt, _inner_scope(node, scope))
    path = _path(node, scope)
    return None if path is None else f"{path}[]"


def _inner_scope(node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Scope:
    inner = dict(scope)
    for generator in node.generators:
        source = _element_path(generator.iter, inner)
        if isinstance(generator.target, ast.Name):
            inner[generator.target.id] = source
        else:
            names = [part.id for part in ast.walk(generator.target) if isinstance(part, ast.Name)]
            inner.update(dict.fromkeys(names, None if source is None else f"{source}[]"))
    return inner
