"""Which model classes a release registers, and which of them take the layers to capture: read in its sources.

SGLang registers the `EntryClass` of every module of `sglang.srt.models` under the name of the class; vLLM has
dictionaries in `model_executor/models/registry.py`. A start asks SGLang's classes for a method and vLLM's for an
interface; both count when they are inherited.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.classes.class_sources import Class, Module, Package, statements

SETTERS = {
    "eagle3": "set_eagle3_layers_to_capture",
    "dflash": "set_dflash_layers_to_capture",
    "dspark": "set_dspark_layers_to_capture",
}
INTERFACE = "SupportsEagle3"
METHOD = "set_aux_hidden_state_layers"

_SGLANG_MODELS = "sglang.srt.models"
_VLLM_MODELS = "vllm.model_executor.models"


@dataclass(frozen=True)
class Registry:
    """What was read: registered names, and by word those that take the layers to capture.

    `forwarding` are classes that hand unknown attributes on to a model they hold (`__getattr__`): what they take cannot
    be read from their class. `problems` names what could not be found; with one, the lists are not whole.
    """

    registered: frozenset[str]
    captures: Mapping[str, frozenset[str]]
    forwarding: frozenset[str]
    problems: frozenset[str]


def sglang(root: Path) -> Registry:
    """The registry of an SGLang release whose package stands under `root`."""
    package = Package(root, "sglang")
    classes: dict[str, Class] = {}
    for path in sorted((root / "sglang/srt/models").glob("*.py")):
        module = package.module(f"{_SGLANG_MODELS}.{path.stem}")
        if module is None or path.stem == "__init__":
            continue
        for found in entry_classes(module):
            classes[found.name] = found
    captures = {word: _having(classes, setter) for word, setter in SETTERS.items()}
    forwarding = frozenset(name for name, one in classes.items() if one.has("__getattr__"))
    return Registry(frozenset(classes), captures, forwarding, frozenset(package.problems))


def vllm(root: Path) -> Registry:
    """The registry of a vLLM release whose package stands under `root`."""
    package = Package(root, "vllm")
    rows = vllm_rows(root / "vllm/model_executor/models/registry.py")
    classes: dict[str, Class] = {}
    for architecture, (where, name) in rows.items():
        dotted = where if where.startswith("vllm.") else f"{_VLLM_MODELS}.{where}"
        module = package.module(dotted)
        found = module.find(name) if module is not None else None
        if found is None:
            package.problems.add(f"{architecture}: no {dotted}.{name}")
        else:
            classes[architecture] = found
    interfaces = package.module(f"{_VLLM_MODELS}.interfaces")
    if interfaces is not None and interfaces.find(INTERFACE) is not None:
        inherits = frozenset(name for name, one in classes.items() if one.inherits(INTERFACE, interfaces.dotted))
        captures = {"eagle3": inherits}
    else:  # before the interface existed the method was called, whether it was there or not
        captures = {"eagle3": _having(classes, METHOD)}
    forwarding = frozenset(name for name, one in classes.items() if one.has("__getattr__"))
    return Registry(frozenset(rows), captures, forwarding, frozenset(package.problems))


READERS = {"sglang": sglang, "vllm": vllm}


def entry_classes(module: Module) -> Iterator[Class]:
    """The classes that a module of SGLang gives to the registry: `EntryClass`, one class or several."""
    values: list[tuple[ast.expr, Module]] = []
    for node in statements(module.tree.body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == "EntryClass" for t in targets):
            value = getattr(node, "value", None)
            if value is not None:
                values.append((value, module))
        elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("EntryClass."):
            module.package.problems.add(f"{module.dotted}: {ast.unparse(node)}")
    if not values:
        value, home = module.lookup("EntryClass")
        if isinstance(value, ast.expr):
            values.append((value, home))
    for value, home in values:
        for item in _items(value, home):
            found = home.class_of(item)
            if found is None:
                module.package.problems.add(f"{module.dotted}: EntryClass {ast.unparse(item)}")
            else:
                yield found


def _items(value: ast.expr, module: Module) -> Iterator[ast.expr]:
    if isinstance(value, ast.List | ast.Tuple):
        for item in value.elts:
            yield from _items(item.value if isinstance(item, ast.Starred) else item, module)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        yield from _items(value.left, module)
        yield from _items(value.right, module)
    elif isinstance(value, ast.Name):
        behind, home = module.lookup(value.id)
        if isinstance(behind, ast.List | ast.Tuple | ast.BinOp):
            yield from _items(behind, home)
        else:
            yield value
    else:
        yield value


def vllm_rows(path: Path) -> dict[str, tuple[str, str]]:
    """Architecture → (module, class) as `_VLLM_MODELS` of vLLM's registry holds it; both branches of an `if` count."""
    known: dict[str, object] = {}
    for node in statements(ast.parse(path.read_bytes()).body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id.endswith("_MODELS") and getattr(node, "value", None):
                assert isinstance(node, ast.Assign | ast.AnnAssign)
                assert node.value is not None
                value = literal(node.value, known)
                before = known.get(target.id)
                known[target.id] = {**before, **value} if isinstance(before, dict) else value  # type: ignore[dict-item]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _update(node.value, known)
    rows = known["_VLLM_MODELS"]
    assert isinstance(rows, dict)
    return {str(name): (str(row[0]), str(row[1])) for name, row in rows.items()}


def _update(call: ast.Call, known: dict[str, object]) -> None:
    where = call.func
    if isinstance(where, ast.Attribute) and where.attr == "update" and isinstance(where.value, ast.Name):
        before = known.get(where.value.id)
        if isinstance(before, dict):
            before.update(literal(call.args[0], known))  # type: ignore[call-overload]


_PLAIN = (
    ast.Expression | ast.Dict | ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Name | ast.Load | ast.Store
    | ast.DictComp | ast.comprehension | ast.Compare | ast.Eq | ast.NotEq | ast.In | ast.NotIn | ast.BoolOp | ast.And
    | ast.Or
)  # fmt: skip


def literal(expression: ast.expr, known: Mapping[str, object]) -> object:
    """The value of a literal, in which names that are known and comprehensions over their items may stand.

    Raises `ValueError` for anything else: what was fetched is data, and no code of it is run.
    """
    for node in ast.walk(expression):
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
        items = isinstance(node, ast.Attribute) and node.attr in ("items", "keys", "values")
        if not (isinstance(node, _PLAIN) or call or items):
            raise ValueError(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is no plain value")
    code = compile(ast.fix_missing_locations(ast.Expression(expression)), "<literal>", "eval")
    return eval(code, {"__builtins__": {}}, dict(known))


def _having(classes: Mapping[str, Class], member: str) -> frozenset[str]:
    return frozenset(name for name, one in classes.items() if one.has(member))
