"""The texts of rules with their placeholders in words: what a person reads where a value would stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ckptdoctor.rulebook.expressions import Expression
from ckptdoctor.rulebook.messages import compile_template

__all__ = ["readable"]

_OPEN, _CLOSE = "⟨", "⟩"
_ROOTS = (
    "draft",
    "target",
    "vocab",
    "files",
    "tokens",
    "plan",
    "it",
    "d",
    "l",
    "launch",
    "values",
    "mtp",
    "block",
    "medusa",
)

_WORDS: Mapping[str, str] = {
    "draft.algorithm_name": "kind of draft",
    "draft.architecture.name": "class",
    "draft.architecture.attention": "kind of attention",
    "draft.architecture.algorithm": "kind of draft",
    "draft.attention": "kind of attention",
    "draft.aux.claimed": "number of captured layers",
    "draft.aux.declared": "number",
    "draft.aux.depth": "number of layers",
    "draft.aux.duplicates": "ids",
    "draft.aux.guess": "default layers",
    "draft.aux.highest": "highest id",
    "draft.aux.ids": "ids",
    "draft.aux.key": "key",
    "draft.aux.lowest": "lowest id",
    "draft.aux.recorded_depth": "number",
    "draft.aux.too_high": "ids",
    "draft.aux.too_low": "ids",
    "draft.depth_claimed": "number",
    "draft.depth_stored": "number",
    "draft.fc.expected_in": "width",
    "draft.fc.in_features": "width",
    "draft.fc.name": "fc.weight",
    "draft.fc.out_features": "width",
    "draft.fc.states": "number",
    "draft.hidden_size": "width of the draft",
    "draft.names.collisions": "names",
    "draft.names.fc_norm_count": "number",
    "draft.target_hidden_size": "width of the target",
    "draft.vocab_size": "size",
    "draft.writer.name": "trainer",
    "heads.best": "reading",
    "heads.chance": "figure",
    "heads.elsewhere": "number",
    "heads.embedding": "figure",
    "heads.figures": "figures",
    "heads.id_shift": "number",
    "heads.mask": "figure",
    "heads.sampled": "number",
    "heads.shift": "number",
    "heads.wrong_from": "row",
    "heads.wrong_to": "row",
    "it.found_as": "stored name",
    "it.of": "number",
    "it.stage": "stage",
    "it.text": "what differs",
    "plan.better": "releases that do better",
    "plan.label": "engine and release",
    "plan.left_at_ones": "norms",
    "plan.left_random": "parameters",
    "plan.unplaced": "stored tensors",
    "target.hidden_size": "width of the target",
    "target.num_layers": "number of layers",
    "target.vocab_size": "size of the target's vocabulary",
    "tokens.bytes.inside": "number",
    "tokens.bytes.total": "number",
    "tokens.digits.missing_ids": "ids",
    "tokens.digits.total": "number",
    "tokens.specials": "special tokens",
    "tokens.turn_end": "token",
    "tokens.unreachable": "tokens",
    "tokens.unreachable_told": "tokens",
    "vocab.claimed_draft_size": "size",
    "vocab.d2t.length": "number",
    "vocab.d2t.name": "d2t",
    "vocab.d2t.values": "first values",
    "vocab.draft_size": "number",
    "vocab.lengths": "sources and sizes",
    "vocab.mask_count": "number",
    "vocab.out_of_range.count": "number",
    "vocab.out_of_range.draft_id": "id",
    "vocab.out_of_range.target_id": "id",
    "vocab.repeated.count": "number",
    "vocab.repeated.draft_id": "id",
    "vocab.repeated.other": "id",
    "vocab.repeated.target_id": "id",
    "vocab.size": "size of the vocabulary",
    "vocab.t2d.length": "number",
    "vocab.t2d.name": "t2d",
}
"""Facts whose path does not say well enough what would stand there."""


def readable(text: str) -> str:
    """`text` with `{expressions}` in words: `⟨number of captured layers⟩`; parts that are not always there in [ ]."""
    parts = compile_template(text).parts
    return "".join(_words(part.node) if isinstance(part, Expression) else part for part in parts)


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.IfExp):
        return _either(_words(node.body), _words(node.orelse))
    if isinstance(node, ast.BoolOp):
        return _joined([_words(value) for value in node.values], " or ")
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Sub):  # `count - 1` others
            return _words(node.left)
        return f"{_words(node.left)}{' × ' if isinstance(node.op, ast.Mult) else ''}{_words(node.right)}"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.ListComp):
        return _words(node.value)
    if isinstance(node, ast.ListComp):
        return _words(node.elt)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func.id, node.args)
    return f"{_OPEN}{_named(node)}{_CLOSE}"


def _either(one: str, other: str) -> str:
    if not one or not other:
        text = one or other
        lead = " " if text.startswith(" ") else ""
        return f"{lead}[{text.strip()}]" if text else ""
    if " " not in one + other:
        return f"{one}/{other}"
    if one.endswith("."):
        return f"{one} Or: {other}"
    lead = " " if one.startswith(" ") else ""
    return f"{lead}[{one.strip()}, or: {other.lstrip(', ')}]"


def _joined(words: list[str], between: str) -> str:
    """Words once each, in one pair of brackets where all are placeholders."""
    distinct = list(dict.fromkeys(words))
    if all(word.startswith(_OPEN) for word in distinct):
        return f"{_OPEN}{between.join(word.strip(_OPEN + _CLOSE) for word in distinct)}{_CLOSE}"
    return between.join(distinct)


def _called(function: str, arguments: list[ast.expr]) -> str:
    first = _words(arguments[0])
    if function == "plural":
        if isinstance(arguments[0], ast.Call):
            first = f"{_OPEN}number{_CLOSE}"
        several = _words(arguments[2]) if len(arguments) > 2 else f"{_words(arguments[1])}s"
        return f"{first} {several}"
    if function in ("show", "listing", "sorted", "unique", "abs"):
        return first
    inner = first.strip(_OPEN + _CLOSE)
    word = {"len": "number of", "min": "lowest of the", "max": "highest of the", "sum": "sum of the"}[function]
    return f"{_OPEN}{'number' if inner == 'number' else f'{word} {inner}'}{_CLOSE}"


def _named(node: ast.expr) -> str:
    path = ast.unparse(node)
    if path in _WORDS:
        return _WORDS[path]
    if isinstance(node, ast.Subscript):
        return f"first of the {_named(node.value)}"
    parts = re.sub(r"\[[^]]*\]", "", path).split(".")
    if parts[0] in _ROOTS and len(parts) > 1:
        parts = parts[1:]
    return " ".join(parts[-2:]).replace("_", " ")
