"""Which model_types the config reading of a release knows: its own config classes, and those of transformers.

An engine's own are what its sources put into `_CONFIG_REGISTRY` or register with transformers' `AutoConfig`; those of
transformers are the keys of `CONFIG_MAPPING_NAMES`. Which transformers goes with a release is what its metadata asks
for: the release it pins, or for a range the newest of each generation that the range allows today.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tests.conformance import sources
from tests.conformance.classes.class_sources import Module, Package, statements
from tests.conformance.environments import SetupError

_REGISTRIES = ("_CONFIG_REGISTRY", "_CONFIG_REGISTRY_OVERRIDE_HF")
_MARKS = re.compile(rb"_CONFIG_REGISTRY|AutoConfig\.register|CONFIG_MAPPING\b")
_REGISTERS = ("AutoConfig.register", "CONFIG_MAPPING.register")
_EXTRA = "CONFIG_MAPPING._extra_content"

_REGISTERED_AGAIN = {("vllm.transformers_utils.config", name) for name in ("model_type", "config_model_type")}
"""Variables that hold a key of `_CONFIG_REGISTRY` where vLLM hands it on to `AutoConfig`."""

Loops = Mapping[str, tuple[ast.expr, ...]]
"""Loop variable → the expressions that it takes."""


def own(root: Path, name: str, under: str) -> tuple[frozenset[str], frozenset[str]]:
    """The model_types that the package registers, and what could not be read, from its files `under` a folder."""
    package = Package(root, name, bodies=True)
    found: set[str] = set()
    for path in sorted((root / under).rglob("*.py")):
        if "hf_transformers" in path.as_posix() or _MARKS.search(path.read_bytes()):
            parts = path.relative_to(root).with_suffix("").parts
            module = package.module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
            assert module is not None
            found |= set(_Reader(module).read(module.tree.body, {}))
    return frozenset(found), frozenset(package.problems)


def of_transformers(root: Path) -> frozenset[str]:
    """The keys of `CONFIG_MAPPING_NAMES` in the transformers release under `root`."""
    package = Package(root, "transformers")
    known: set[str] = set()
    for stem in ("auto_mappings", "configuration_auto"):
        module = package.module(f"transformers.models.auto.{stem}")
        if module is None:
            continue
        for node in statements(module.tree.body):
            value: ast.expr | None = None
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(ast.unparse(target) == "CONFIG_MAPPING_NAMES" for target in targets):
                    value = node.value
            elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("CONFIG_MAPPING_NAMES.update("):
                value = node.value
            if value is not None:
                known |= set(_Reader(module).keys(value, {}))
    if package.problems or "llama" not in known:
        raise SetupError(f"{root.name}: {'; '.join(sorted(package.problems)) or 'no CONFIG_MAPPING_NAMES'}")
    return frozenset(known)


def transformers_for(metadata: str) -> tuple[tuple[str, ...], str]:
    """The transformers releases to read for an engine with this METADATA, and what it asks for."""
    wanted = [Requirement(line) for line in re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)]
    specifiers = {str(w.specifier) for w in wanted if w.name == "transformers" and str(w.specifier)}
    if len(specifiers) != 1:
        raise SetupError(f"transformers is asked for as {sorted(specifiers) or 'nothing'}")
    (text,) = specifiers
    (specifier,) = {w.specifier for w in wanted if w.name == "transformers" and str(w.specifier)}
    pinned = re.fullmatch(r"==([\w.]+)", text)
    if pinned:
        return (pinned[1],), text
    generations: dict[int, Version] = {}
    for version in specifier.filter(_on_index()):
        generations[version.major] = max(version, generations.get(version.major, version))
    return tuple(str(generations[major]) for major in sorted(generations)), text


@lru_cache(maxsize=1)
def _on_index() -> tuple[Version, ...]:
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", "transformers"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        raise SetupError(f"pip finds no release of transformers: {done.stderr.strip()[-300:]}")
    return tuple(Version(text) for text in found[1].split(", "))


@lru_cache(maxsize=64)
def transformers_types(release: str) -> frozenset[str]:
    """The model_types of one transformers release."""
    return of_transformers(sources.folder("transformers", release, _is_auto))


def _is_auto(path: str) -> bool:
    return path.startswith("transformers/models/auto/")


class _Reader:
    def __init__(self, module: Module) -> None:
        self._module = module

    def read(self, body: Iterable[ast.stmt], loops: Loops) -> Iterator[str]:
        """The model_types that statements register, in functions and classes too."""
        for node in body:
            inner = dict(loops)
            if isinstance(node, ast.For):
                inner |= self._loop(node)
            yield from self._statement(node, loops)
            for field in ("body", "orelse", "finalbody"):
                part = getattr(node, field, None)
                if isinstance(part, list):
                    yield from self.read(part, inner if field == "body" else loops)
            for handler in getattr(node, "handlers", ()):
                yield from self.read(handler.body, loops)

    def _statement(self, node: ast.stmt, loops: Loops) -> Iterator[str]:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in _REGISTRIES and node.value is not None:
                    yield from self.keys(node.value, loops)
                if isinstance(target, ast.Subscript) and ast.unparse(target.value) in (*_REGISTRIES, _EXTRA):
                    yield from self.types(target.slice, loops)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call, name = node.value, ast.unparse(node.value.func)
            if name in _REGISTERS:
                yield from self.types(call.args[0], loops)
            elif name in [f"{registry}.update" for registry in _REGISTRIES]:
                yield from self.keys(call, loops)
        elif isinstance(node, ast.If) and "hf_transformers" in self._module.dotted:
            # SGLang reads some types itself when transformers' message names them: `"deepseek_v32" in str(e)`.
            for test in ast.walk(node.test):
                if isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "str(e)":
                    text = ast.unparse(test.left).strip("'")
                    if f"_load_{text}_model" in self._module.names:
                        yield text

    def keys(self, value: ast.expr, loops: Loops) -> Iterator[str]:
        """The keys of something that makes a dictionary, or the model_types of a list of config classes."""
        if isinstance(value, ast.Dict):
            for key, inner in zip(value.keys, value.values, strict=True):
                yield from self.keys(inner, loops) if key is None else self.types(key, loops)
        elif isinstance(value, ast.DictComp):
            (generator,) = value.generators
            yield from self.types(value.key, {**loops, **self._loop(generator)})
        elif isinstance(value, ast.Call):
            for argument in value.args:
                yield from self.keys(argument, loops)
            for keyword in value.keywords:
                if keyword.arg is None:
                    yield from self.keys(keyword.value, loops)
                else:
                    yield keyword.arg
        elif isinstance(value, ast.List | ast.Tuple):
            for item in value.elts:
                if isinstance(item, ast.Tuple):
                    yield from self.types(item.elts[0], loops)
                else:
                    yield from self.types(ast.Attribute(item, "model_type", ast.Load()), loops)
        elif not (isinstance(value, ast.Name) and value.id in (*_REGISTRIES, "CONFIG_MAPPING_NAMES")):
            self._problem(value)

    def types(self, expression: ast.expr, loops: Loops) -> Iterator[str]:
        """The model_types that an expression can be."""
        if isinstance(expression, ast.Constant):
            yield str(expression.value)
        elif isinstance(expression, ast.Name) and expression.id in loops:
            for item in loops[expression.id]:
                yield from self.types(item, {})
        elif isinstance(expression, ast.Attribute) and expression.attr == "model_type":
            yield from self._of_class(expression.value, loops)
        elif isinstance(expression, ast.Name):
            behind, _ = self._module.lookup(expression.id)
            if isinstance(behind, ast.Constant):
                yield str(behind.value)
            elif not self._of_registry(expression.id):
                self._problem(expression)
        else:
            self._problem(expression)

    def _of_class(self, expression: ast.expr, loops: Loops) -> Iterator[str]:
        if isinstance(expression, ast.Name) and expression.id in loops:
            for item in loops[expression.id]:
                yield from self._of_class(item, {})
            return
        found = self._module.class_of(expression)
        constant = isinstance(expression, ast.Constant)
        value = expression.value if constant else None if found is None else found.constant("model_type")
        if isinstance(value, str):
            yield value
        elif isinstance(expression, ast.Starred):
            yield from self.keys(expression.value, loops)
        elif isinstance(expression, ast.Name) and self._of_registry(expression.id):
            return
        elif found is not None or not self._from_outside(expression):
            self._problem(expression)

    def _from_outside(self, expression: ast.expr) -> bool:
        """Whether a class comes from transformers itself, which then knows its model_type."""
        if not isinstance(expression, ast.Name):
            return False
        module: Module | None = self._module
        name = expression.id
        while module is not None:
            bound = module.names.get(name)
            if bound is None or bound.source is None or bound.source[1] is None:
                return False
            dotted, name = bound.source[0], bound.source[1]
            if dotted.split(".")[0] == "transformers":
                return True
            module = module.package.module(dotted) if module.package.inside(dotted) else None
        return False

    def _loop(self, node: ast.For | ast.comprehension) -> dict[str, tuple[ast.expr, ...]]:
        over = node.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "items":
            over = over.func.value
            if isinstance(over, ast.Dict) and isinstance(node.target, ast.Tuple):
                names = [target.id for target in node.target.elts if isinstance(target, ast.Name)]
                keys = tuple(key for key in over.keys if key is not None)
                return dict(zip(names, (keys, tuple(over.values)), strict=True))
            return {}
        home = self._module
        if isinstance(over, ast.Name):
            behind, home = home.lookup(over.id)
            over = behind if isinstance(behind, ast.expr) else over
        if not isinstance(over, ast.List | ast.Tuple):
            return {}
        if isinstance(node.target, ast.Name):
            return {node.target.id: tuple(self._here(item, home) for item in over.elts)}
        if isinstance(node.target, ast.Tuple) and all(isinstance(item, ast.Tuple) for item in over.elts):
            rows = [item.elts for item in over.elts if isinstance(item, ast.Tuple)]
            names = [target.id for target in node.target.elts if isinstance(target, ast.Name)]
            return {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
        return {}

    def _here(self, item: ast.expr, home: Module) -> ast.expr:
        """An item of another module's list: its model_type as a constant, where it is a class of the package."""
        if home is self._module:
            return item
        found = home.class_of(item)
        return item if found is None else ast.Constant(found.constant("model_type"))

    def _of_registry(self, name: str) -> bool:
        """Whether the variable `name` is a key or class of a registry that is read where it is made."""
        if (self._module.dotted, name) in _REGISTERED_AGAIN:
            return True
        for node in ast.walk(self._module.tree):
            if isinstance(node, ast.For | ast.comprehension) and name in ast.unparse(node.target).strip("()").split(
                ", "
            ):
                over = ast.unparse(node.iter)
                if any(registry in over for registry in _REGISTRIES):
                    return True
        return False

    def _problem(self, expression: ast.expr) -> None:
        self._module.package.problems.add(f"{self._module.dotted}: model_type {ast.unparse(expression)}")
