"""Classes of a package as its sources define them: names, bases and members, without an import of the package.

Conditions that a reader can decide (a platform, TYPE_CHECKING) are decided as a server with CUDA would; of others both
branches count, the first one before the second. A name that leads out of the package, to torch or transformers, ends
the search there. Names of the package that cannot be found are kept in `problems`: lists that rest on them are not
whole.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_DECIDED = {
    "TYPE_CHECKING": False,
    "is_cuda": True,
    "is_cuda_alike": True,
    "is_rocm": False,
    "is_hip": False,
    "is_xpu": False,
    "is_cpu": False,
    "is_npu": False,
    "is_tpu": False,
    "is_hpu": False,
}
"""What a server with CUDA answers; names are looked up without what stands before the last dot and a leading `_`."""


@dataclass(frozen=True)
class Name:
    """Something a module binds to a name: `value` stands in it, or `source` (module, name) is where it comes from."""

    value: ast.ClassDef | ast.expr | None = None
    source: tuple[str, str | None] | None = None


@dataclass(frozen=True, eq=False)
class Class:
    """One class statement and the module that it stands in."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def members(self) -> frozenset[str]:
        """Names that the class statement itself binds."""
        return frozenset(bound for bound, _ in _bindings(self.node.body, None))

    @cached_property
    def bases(self) -> tuple[Class, ...]:
        """Bases inside the package; others end the search."""
        found = (self.module.class_of(base) for base in self.node.bases)
        return tuple(base for base in found if base is not None)

    def ancestors(self) -> Iterator[Class]:
        """The class and every class of the package that it inherits from."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            one = stack.pop()
            if id(one.node) not in seen:
                seen.add(id(one.node))
                yield one
                stack += one.bases

    def has(self, member: str) -> bool:
        """Whether it or an ancestor binds `member`."""
        return any(member in one.members for one in self.ancestors())

    def inherits(self, name: str, dotted: str) -> bool:
        """Whether the class `name` of the module `dotted` is among its ancestors."""
        return any(one.name == name and one.module.dotted == dotted for one in self.ancestors())

    def constant(self, member: str) -> object:
        """The constant that `member` is set to, by the nearest ancestor that sets it; None where there is none."""
        for one in self.ancestors():
            for bound, value in _bindings(one.node.body, None):
                if bound == member and isinstance(value.value, ast.Constant):
                    return value.value.value
        return None


class Package:
    """The sources of one package under `root`, parsed as they are asked for, with or without function bodies."""

    def __init__(self, root: Path, name: str, *, bodies: bool = False) -> None:
        self.root, self.name, self.bodies = root, name, bodies
        self.problems: set[str] = set()
        self._modules: dict[str, Module | None] = {}
        self._classes: dict[int, Class] = {}

    def module(self, dotted: str) -> Module | None:
        """The module of that name, or None where there is no such file."""
        if dotted not in self._modules:
            base = self.root.joinpath(*dotted.split("."))
            path = next((p for p in (base / "__init__.py", base.with_suffix(".py")) if p.is_file()), None)
            self._modules[dotted] = None if path is None else Module(self, dotted, path)
        return self._modules[dotted]

    def inside(self, dotted: str) -> bool:
        return dotted == self.name or dotted.startswith(self.name + ".")

    def made(self, module: Module, node: ast.ClassDef) -> Class:
        """One `Class` for each class statement, so that they can be compared."""
        return self._classes.setdefault(id(node), Class(module, node))


class Module:
    """One source file of a package."""

    def __init__(self, package: Package, dotted: str, path: Path) -> None:
        self.package, self.dotted, self.path = package, dotted, path
        self.tree = _parsed(path.read_bytes(), package.bodies)
        self._here = dotted if path.name == "__init__.py" else dotted.rpartition(".")[0]

    @cached_property
    def names(self) -> dict[str, Name]:
        """What the module binds; the last binding counts."""
        return dict(_bindings(self.tree.body, self))

    @cached_property
    def _lazy(self) -> dict[str, Name]:
        """What a module with a `__getattr__` of its own imports when it is asked for: as it tells type checkers."""
        if "__getattr__" not in self.names:
            return {}
        shown = (n for n in self.tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
        return dict(_bindings([node for branch in shown for node in branch.body], self))

    def class_of(self, expression: ast.expr) -> Class | None:
        """The class of the package that an expression names, or None for one of elsewhere."""
        if isinstance(expression, ast.Subscript):
            return self.class_of(expression.value)
        if isinstance(expression, ast.Call) and ast.unparse(expression.func).startswith("as_") and expression.args:
            return self.class_of(expression.args[0])  # vLLM's as_seq_cls_model(Class) makes a subclass of it
        if isinstance(expression, ast.Name):
            return self.find(expression.id)
        if isinstance(expression, ast.Attribute):
            dotted = self._dotted(expression.value)
            if dotted is not None and self.package.inside(dotted):
                module = self.package.module(dotted)
                if module is not None:
                    return module.find(expression.attr)
                self._problem(f"{dotted}.{expression.attr}")
        return None

    def find(self, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Class | None:
        """The class that `name` stands for in this module."""
        value, home = self.lookup(name, seen)
        if isinstance(value, ast.ClassDef):
            return self.package.made(home, value)
        return home.class_of(value) if isinstance(value, ast.Name | ast.Attribute | ast.Call) else None

    def lookup(
        self, name: str, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> tuple[ast.ClassDef | ast.expr | None, Module]:
        """The class statement or expression behind `name`, through imports, and the module that it stands in."""
        key = (self.dotted, name)
        bound = self.names.get(name) or self._lazy.get(name)
        if bound is None:
            for module in self._stars():
                if key not in seen and (name in module.names or list(module._stars())):
                    found = module.lookup(name, seen | {key})
                    if found[0] is not None:
                        return found
            return None, self
        if bound.source is None:
            return bound.value, self
        dotted, original = bound.source
        if not self.package.inside(dotted) or original is None or key in seen:
            return None, self
        module = self.package.module(dotted)
        if module is None:
            self._problem(f"{dotted}.{original}")
            return None, self
        if original not in module.names and self.package.module(f"{dotted}.{original}"):
            return None, self
        found = module.lookup(original, seen | {key})
        if found[0] is None and original not in module.names and not list(module._stars()):
            self._problem(f"{dotted}.{original}")
        return found

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that a `from … import` names."""
        if not node.level:
            return node.module or ""
        parts = self._here.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _dotted(self, expression: ast.expr) -> str | None:
        if isinstance(expression, ast.Name):
            bound = self.names.get(expression.id)
            if bound is None or bound.source is None:
                return None
            dotted, original = bound.source
            return dotted if original is None else f"{dotted}.{original}"
        if isinstance(expression, ast.Attribute):
            before = self._dotted(expression.value)
            return None if before is None else f"{before}.{expression.attr}"
        return None

    def _stars(self) -> Iterator[Module]:
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                dotted = self.absolute(node)
                module = self.package.module(dotted) if self.package.inside(dotted) else None
                if module is not None:
                    yield module

    def _problem(self, what: str) -> None:
        self.package.problems.add(f"{self.dotted}: no {what}")


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that are run where `body` is, branches included; what counts first comes last."""
    for node in body:
        if isinstance(node, ast.If):
            answer = decided(node.test)
            if answer is not True:
                yield from statements(node.orelse)
            if answer is not False:
                yield from statements(node.body)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from statements(handler.body)
            yield from statements([*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.With | ast.For):
            yield node
            yield from statements(node.body)
        else:
            yield node


def decided(test: ast.expr) -> bool | None:
    """What a condition comes to on a server with CUDA, or None where that cannot be read."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = decided(test.operand)
        return None if answer is None else not answer
    if isinstance(test, ast.BoolOp):
        answers = [decided(value) for value in test.values]
        final = isinstance(test.op, ast.Or)
        if final in answers:
            return final
        return None if None in answers else not final
    if isinstance(test, ast.Compare):
        text = ast.unparse(test)
        return "'cuda'" in text if "device_type ==" in text else None
    while isinstance(test, ast.Call | ast.Attribute):
        if isinstance(test, ast.Attribute):
            return _DECIDED.get(test.attr)
        test = test.func
    return _DECIDED.get(test.id.lstrip("_")) if isinstance(test, ast.Name) else None


_TREES: dict[bytes, ast.Module] = {}
"""Trees without bodies by the digest of their file: releases that follow each other share most files."""


def _parsed(content: bytes, bodies: bool) -> ast.Module:
    if bodies:
        return ast.parse(content)
    digest = hashlib.sha256(content).digest()
    if digest not in _TREES:
        tree = ast.parse(content)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = [ast.Pass()]
        _TREES[digest] = tree
    return _TREES[digest]


def _bindings(body: Iterable[ast.stmt], module: Module | None) -> Iterator[tuple[str, Name]]:
    for node in statements(body):
        if isinstance(node, ast.ClassDef):
            yield node.name, Name(value=node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, Name()
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, Name(value=node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, Name(value=node.value)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or whole, Name(source=(whole, None))
        elif isinstance(node, ast.ImportFrom) and module is not None:
            for alias in node.names:
                yield alias.asname or alias.name, Name(source=(module.absolute(node), alias.name))
