"""Expressions as closures mean what simpleeval makes of them: that evaluator is the reference for both dialects."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes, SimpleEval
from toyfacts import NEEDS_TARGET, Aux, Layer, Target, facts

from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.rulebook.checking import _expressions
from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.expressions import Expression, compile_expression
from ckptdoctor.rulebook.functions import FUNCTIONS, OPERATORS
from ckptdoctor.rulebook.translating import Reading
from ckptdoctor.serving import contracts
from ckptdoctor.serving.contract.settings import Settings, _translated
from ckptdoctor.unknown import Unknown, UnknownFactError

LIMITED = (ast.Add, ast.Mult)


class RuleReference(EvalWithCompoundTypes):  # type: ignore[misc]
    """The dialect of rules, by simpleeval."""

    def __init__(self, names: dict[str, object], paths: Mapping[ast.AST, str]) -> None:
        super().__init__(operators={**OPERATORS, **{k: DEFAULT_OPERATORS[k] for k in LIMITED}}, names=names)
        self.functions = dict(FUNCTIONS)
        self.ATTR_INDEX_FALLBACK = False
        self.paths, self.reads = paths, set[str]()

    def _check_disallowed_items(self, item: object) -> None:
        """Nothing, as for the closures."""

    def _eval(self, node: ast.AST) -> Any:
        value = super()._eval(node)
        if (path := self.paths.get(node)) is not None:
            self.reads.add(path)
        if isinstance(value, Unknown):
            raise UnknownFactError(value)
        return value


class Names(dict[str, Any]):
    """The symbols of a contract: one that is not known ends the evaluation."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Unknown):
            raise UnknownFactError(value)
        return value


def outcome(run: Any) -> tuple[object, ...]:
    """The value with its types, or the failure in words."""
    try:
        value = run()
    except UnknownFactError as error:
        return "unknown", error.unknown.needs
    except Exception as error:  # noqa: BLE001 - whatever it is, both have to fail so
        return type(error).__name__, str(getattr(error, "message", None) or error)
    return "value", repr(value)


def of_closure(expression: Expression, names: dict[str, object]) -> tuple[object, ...]:
    reads: set[str] = set()
    return (*outcome(lambda: expression.run(names, Reading(reads))), frozenset(reads))


def of_reference(expression: Expression, names: dict[str, object]) -> tuple[object, ...]:
    engine = RuleReference(names, expression.paths)
    found = outcome(lambda: engine.eval(expression.text, previously_parsed=expression.node))
    return (*found, frozenset(engine.reads))


GIVEN = {
    "a": 3, "b": 0, "c": -2.5, "t": True, "f": False, "n": None, "s": "eagle3", "e": "", "xs": (1, 2, 3), "ys": [],
    "pairs": [(1, 2), (3, 4)], "m": {"k": 1}, "unknown": NEEDS_TARGET, "mixed": (1, NEEDS_TARGET),
    "layers": (Layer("a"), Layer("b", 2)), "aux": Aux(), "target": Target(hidden_size=NEEDS_TARGET), "long": (0,) * 300,
}  # fmt: skip

ATOMS = st.sampled_from([
    *GIVEN, "nothing", "1", "0", "2.5", "'x'", "'eagle3'", "''", "True", "False", "None", "[]", "()", "aux.ids",
    "aux.claimed", "aux.absent", "target.layers", "target.hidden_size", "layers[0].name", "layers[9]", "m['k']",
    "m['z']", "s.format", "s.upper", "s.func_x", "'a' 'b'",
])  # fmt: skip
TEMPLATES = (
    "({0} and {1})", "({0} or {1})", "({0} and {1} and {2})", "(not {0})", "(-{0})", "({0} + {1})", "({0} - {1})",
    "({0} * {1})", "({0} / {1})", "({0} // {1})", "({0} % {1})", "({0} == {1})", "({0} != {1})", "({0} < {1})",
    "({0} >= {1} > {2})", "({0} in {1})", "({0} not in {1})", "({0} is {1})", "({0} is not {1})",
    "({0} if {1} else {2})", "len({0})", "abs({0})", "max({0}, {1})", "min({0})", "sum({0})", "sorted({0})",
    "sorted({0}, reverse={1})", "any({0})", "all({0})", "unique({0})", "listing({0})", "show({0}, limit={1})",
    "plural({0}, 'entry', 'entries')", "[{0}, {1}]", "({0}, {1})", "{{{0}, {1}}}", "{{{0}: {1}}}", "{0}[{1}]",
    "{0}[{1}:{2}]", "[x for x in {0}]", "[x for x in {0} if {1}]", "any(x == {0} for x in {1})", "[x for x in x]",
    "[p + q for p, q in {0}]", "[x + y for x in {0} for y in {1} if x != y]", "[[x for x in {0}] for y in {1} if y]",
    "[x for a in {0} for x in ({1}, a)]", "(a for a in {0})", "[it for s in {0}]", "[b for a, (b, c) in [{0}]]",
)  # fmt: skip


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda text, *inner: text.format(*inner), st.sampled_from(TEMPLATES), parts, parts, parts)


@given(st.lists(st.recursive(ATOMS, grown, max_leaves=8), min_size=10, max_size=10))
def test_random_expressions_of_rules(texts: list[str]) -> None:
    for text in texts:
        try:
            expression = compile_expression(text, "layers[]")
        except ExpressionError:
            continue
        names: dict[str, object] = {"True": True, "False": False, "None": None, **GIVEN, "it": Layer("it")}
        assert of_closure(expression, names) == of_reference(expression, names), text


@pytest.mark.parametrize("inner", [("xs", "a", "pairs"), ("long", "long", "a"), ("a", "aux.absent", "unknown")])
def test_every_kind_of_expression_of_rules(inner: tuple[str, str, str]) -> None:
    for template in TEMPLATES:
        expression = compile_expression(template.format(*inner))
        assert of_closure(expression, dict(GIVEN)) == of_reference(expression, dict(GIVEN)), expression.text


def shipped() -> Iterator[Expression]:
    for rule in rulebook():
        for _, expression in _expressions(rule):
            yield expression


@pytest.mark.parametrize("given_facts", [facts(), facts(Target()), {}], ids=["no target", "a target", "nothing"])
def test_every_expression_of_shipped_rules(given_facts: Any) -> None:
    names = {"True": True, "False": False, "None": None, **given_facts, "it": Layer("it")}
    for expression in shipped():
        assert of_closure(expression, dict(names)) == of_reference(expression, dict(names)), expression.text


ENGINE = SimpleEval()
CONSTANTS = {"true": True, "false": False, "null": None}


def contract_pair(text: str, symbols: dict[str, Any], settings: Settings) -> tuple[object, object]:
    engine = ENGINE
    engine.names = Names(symbols, **CONSTANTS)
    methods = (
        "has", "get", "type_of", "count", "stores", "stores_tensor", "target_is_none_of", "size", "in_name", "in_path",
        "given", "lists", "lists_only", "total", "one_of",
    )  # fmt: skip
    engine.functions = {name: getattr(settings, name) for name in methods}
    engine.functions |= {"len": len, "max": max, "min": min, "bool": bool}
    return (
        outcome(lambda: _translated(text)(symbols, settings)),
        outcome(lambda: engine.eval(text, previously_parsed=SimpleEval.parse(text))),
    )


def texts_in(value: Any, key: str = "") -> Iterator[str]:
    """Every text of a contract that can be an expression: whatever parses, and reads a name or calls a function."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from texts_in(inner, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner, key)
    elif isinstance(value, str) and key not in ("source", "reason", "name", "names"):
        try:
            parsed = ast.parse(value.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return
        if not any(isinstance(node, (ast.Attribute, ast.Subscript, ast.Tuple)) for node in ast.walk(parsed)):
            yield value


SYMBOLS: list[dict[str, Any]] = [
    dict.fromkeys(("H", "T", "I", "V", "D", "Q", "KV", "hd", "n", "b", "i", "j", "K", "depth", "TV", "number"), 8),
    {name: Unknown("a size") for name in ("H", "T", "I", "V", "D", "Q", "KV", "hd", "n", "b", "i", "j", "K", "depth")},
    {},
]
SETTINGS = [
    Settings({}),
    Settings(
        {"model_type": "llama", "hidden_size": 8, "eagle_config": {"use_aux_hidden_state": True, "x": [1, 2]},
         "architectures": ["LlamaForCausalLM"], "num_hidden_layers": True, "head_dim": None, "layer_types": "text"},
        frozenset({"fc.weight", "model.layers.0.q_proj.weight"}), "LlamaForCausalLM", "/some/Eagle3-draft/",
    ),
]  # fmt: skip


def test_every_expression_of_contracts() -> None:
    texts = {text for c in contracts().values() for text in (*texts_in(c.raw), *texts_in(c.targets))}
    assert len(texts) > 300
    functions = {"has", "get", "count", "size", "total", "given", "lists", "stores", "len", "max", "min", "bool"}
    for text in sorted(texts - functions):
        for symbols in SYMBOLS:
            for settings in SETTINGS:
                ours, reference = contract_pair(text, symbols, settings)
                assert ours == reference, text


def test_the_kinds_of_syntax_that_contracts_do_not_have() -> None:
    for text in ("[1]", "(1, 2)", "a.b", "a[0]", "f'{a}'", "lambda: 1", "a.b()", "[x for x in a]", "len(*a)"):
        with pytest.raises(Exception, match=r"not available|can be called") as caught:
            _translated(text)({"a": "text"}, Settings({}))
        assert type(caught.value).__name__ == "FeatureNotAvailable"
