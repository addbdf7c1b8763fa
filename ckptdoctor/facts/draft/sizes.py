"""Sizes: what the config claims, what the tensors show, and the tensors whose shape fits neither.

The tensors of a draft share a few sizes (hidden size, query rows, …). A claim that at least one tensor
bears out is the size, and tensors that differ from it are wrong; a claim that no tensor bears out is
itself wrong, and the tensors' own majority is the size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config, Field
from ckptdoctor.facts.draft.attention_geometry import default_head_dim
from ckptdoctor.facts.draft.layout import Placed

__all__ = ["Claims", "ShapeMismatch", "Size", "claims_from", "claims_of", "measure_sizes"]

# Sizes that other examiners judge with more knowledge: target width, captured layers, draft vocabulary.
_NOT_HERE = frozenset({"T", "K", "D"})


@dataclass(frozen=True)
class Size:
    """One size of the draft. `name` is the config's word for it; `tensor` one that shows `stored`.

    `disputed_by` says, in words, what else in the files proves that the tensors are wrong (facts/disputed_sizes.py).
    """

    symbol: str
    name: str
    claimed: int
    stored: int
    tensor: str
    key: str | None
    line: int | None
    disputed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShapeMismatch:
    """A tensor whose shape disagrees with the sizes of the draft; `expected` and `found` are shapes."""

    tensor: str
    file: str
    expected: tuple[int, ...]
    found: tuple[int, ...]
    because: str
    first_attention: bool = False


@dataclass(frozen=True)
class Claims:
    """Sizes as the config gives them, by symbol: value, the words that explain it, and where it stands."""

    values: Mapping[str, int]
    words: Mapping[str, str]
    fields: Mapping[str, Field]


def claims_of(config: Config) -> Claims:
    """The sizes that the draft's config claims or implies."""
    return claims_from(config.size, default_head_dim(config))


def claims_from(size: Callable[[str], Field | None], head_dim_unless_given: int | None = None) -> Claims:
    """The sizes that `size` gives by name, and those that follow from them, as every engine derives them.

    `head_dim` is `head_dim_unless_given` or hidden_size // num_attention_heads unless given, key/value heads are the
    heads unless given (transformers LlamaConfig; SGLang and vLLM alike).
    """
    values: dict[str, int] = {}
    words: dict[str, str] = {}
    fields: dict[str, Field] = {}

    def claim(symbol: str, value: int | None, text: str, field: Field | None) -> None:
        if value is not None:
            values[symbol], words[symbol] = value, text
            if field is not None:
                fields[symbol] = field

    def get(name: str) -> tuple[int | None, Field | None]:
        field = size(name)
        return (field.value if field else None), field

    hidden, hidden_field = get("hidden_size")
    heads, heads_field = get("num_attention_heads")
    kv_heads, kv_field = get("num_key_value_heads")
    head_dim, head_dim_field = get("head_dim")
    kv_heads = kv_heads or heads
    derived = "head_dim"
    if head_dim is None and head_dim_unless_given:
        head_dim, derived = head_dim_unless_given, f"head_dim ({head_dim_unless_given} by its model_type)"
    if head_dim is None and hidden and heads:
        head_dim, derived = hidden // heads, "(hidden_size // num_attention_heads)"
    claim("H", hidden, "hidden_size", hidden_field)
    for symbol, name in (
        ("I", "intermediate_size"),
        ("V", "vocab_size"),
        ("QL", "q_lora_rank"),
        ("KL", "kv_lora_rank"),
    ):
        value, field = get(name)
        claim(symbol, value, name, field)
    claim("hd", head_dim, derived, head_dim_field)
    if heads and head_dim:
        claim("Q", heads * head_dim, f"num_attention_heads × {derived}", head_dim_field or heads_field)
    if kv_heads and head_dim:
        claim("KV", kv_heads * head_dim, f"num_key_value_heads × {derived}", kv_field or heads_field)
    nope, rope, value_dim = (get(n)[0] for n in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    if "KL" in values and rope:
        claim("KA", values["KL"] + rope, "kv_lora_rank + qk_rope_head_dim", fields.get("KL"))
    if heads and nope and rope:
        claim("MQ", heads * (nope + rope), "num_attention_heads × (qk_nope_head_dim + qk_rope_head_dim)", heads_field)
    if heads and nope and value_dim:
        claim("KB", heads * (nope + value_dim), "num_attention_heads × (qk_nope_head_dim + v_head_dim)", heads_field)
    if heads and value_dim:
        claim("MV", heads * value_dim, "num_attention_heads × v_head_dim", heads_field)
    target_hidden = get("target_hidden_size")[0] or hidden
    claim("T", target_hidden, "target_hidden_size", None)
    draft_vocab = get("draft_vocab_size")[0] or values.get("V")
    claim("D", draft_vocab, "draft_vocab_size", None)
    return Claims(values, words, fields)


def measure_sizes(
    placed: Mapping[str, Placed], claims: Claims, attention_input: Mapping[str, str]
) -> tuple[dict[str, int], tuple[Size, ...], tuple[ShapeMismatch, ...]]:
    """The sizes by symbol, the claims that no tensor bears out, and the tensors that do not fit."""
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    witness: dict[tuple[str, int], str] = {}
    for item in placed.values():
        dims = item.parameter.shape
        if len(dims) == len(item.tensor.shape) and not _is_packed(item):
            for symbol, length in zip(dims, item.tensor.shape, strict=True):
                if symbol.isalpha() and symbol != "A":
                    votes[symbol][length] += 1
                    witness.setdefault((symbol, length), item.tensor.name)
    values: dict[str, int] = {}
    wrong: list[Size] = []
    for symbol in {*votes, *claims.values}:
        claimed, seen = claims.values.get(symbol), votes.get(symbol)
        if not seen:
            if claimed is not None:
                values[symbol] = claimed
            continue
        stored = seen.most_common(1)[0][0]
        if claimed is not None and (claimed in seen or symbol in _NOT_HERE):
            values[symbol] = claimed
            continue
        values[symbol] = stored
        if claimed is not None:
            field = claims.fields.get(symbol)
            wrong.append(
                Size(
                    symbol=symbol,
                    name=claims.words[symbol],
                    claimed=claimed,
                    stored=stored,
                    tensor=witness[(symbol, stored)],
                    key=field.key if field else None,
                    line=field.line if field else None,
                )
            )
    mismatches = [m for item in placed.values() if (m := _mismatch(item, values, attention_input))]
    return values, tuple(sorted(wrong, key=lambda s: s.name)), tuple(mismatches)


def _mismatch(item: Placed, values: Mapping[str, int], attention_input: Mapping[str, str]) -> ShapeMismatch | None:
    dims = item.parameter.shape
    if not dims or item.parameter.judged or _is_packed(item):
        return None
    expected = [_value(_resolve(dim, item.layer, attention_input), values) for dim in dims]
    found = item.tensor.shape
    known = [e for e in expected if e is not None]
    if len(known) != len(expected):
        # Part of the shape is not known: judge what is.
        if len(found) == len(expected) and all(e in (None, f) for e, f in zip(expected, found, strict=True)):
            return None
        if len(found) == len(expected):
            expected = [f if e is None else e for e, f in zip(expected, found, strict=True)]
        else:
            return None
    shape = tuple(e for e in expected if e is not None)
    if shape == found:
        return None
    because = _explain(dims, item.layer, attention_input)
    first = item.layer == 0 and "A" in dims
    return ShapeMismatch(item.tensor.name, item.tensor.file, shape, found, because, first)


def _is_packed(item: Placed) -> bool:
    """Whether a matrix holds several values in a byte, so that its columns are not those of the parameter."""
    return item.tensor.dtype == "U8" and len(item.parameter.shape) == 2


def _resolve(dim: str, layer: int | None, attention_input: Mapping[str, str]) -> str:
    if dim != "A":
        return dim
    return attention_input["first" if layer == 0 else "later"]


def _value(dim: str, values: Mapping[str, Any]) -> int | None:
    """`2*H` or `K*T` or `H` as a number; None when a symbol in it is not known."""
    product = 1
    for part in dim.split("*"):
        factor = int(part) if part.isdigit() else values.get(part)
        if factor is None:
            return None
        product *= factor
    return product


_WORDS = {
    "H": "hidden size", "T": "target's hidden size", "I": "feed-forward width", "Q": "query rows",
    "KV": "key and value rows", "hd": "head dimension", "V": "vocabulary", "D": "draft vocabulary",
    "K": "captured layers", "QL": "q_lora_rank", "KL": "kv_lora_rank",
}  # fmt: skip


def _explain(dims: tuple[str, ...], layer: int | None, attention_input: Mapping[str, str]) -> str:
    parts = []
    for dim in dims:
        resolved = _resolve(dim, layer, attention_input)
        words = [p if p.isdigit() else _WORDS.get(p, p) for p in resolved.split("*")]
        parts.append(" × ".join(words))
    return ", ".join(parts)
