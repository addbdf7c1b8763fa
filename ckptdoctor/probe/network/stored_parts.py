"""The stored parts of a draft by canonical name, and whether all are there with the right shapes. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.naming.canonical import canonical_names
from ckptdoctor.probe.network.anatomy import Anatomy, Part
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

__all__ = ["FLOATS", "check_parts", "expected", "known_parts"]

FLOATS = frozenset({"BF16", "F16", "F32", "F64"})
"""The dtypes of weights that are numbers as they stand."""

_LAYER = re.compile(r"layers\.(\d{1,6})\.(.+)", re.DOTALL)
_WORDS = ("low", "mid", "high")
"""aux_norm_low, aux_norm_mid and aux_norm_high are fc_norm.0, 1 and 2 (rules/facts/naming.yaml, `instead`)."""

_USED = ("layers.", "fc.", "norm.", "lm_head.", "embed_tokens.")
# Parts that change what a network computes and that are not known here.
_STRANGE = re.compile(r"(eh_proj|enorm)\.weight$|\.self_attn\.g_proj\.|\.mlp\.(experts|gate)\.")


def known_parts(facts: Facts, known: Knowledge) -> tuple[dict[str, Part], int]:
    """Canonical name → stored part, layers counted from 0, and the number of layers.

    q, k and v (and gate and up) that are stored as one are told apart. Raises `CannotExamineError` for weights whose
    headers are damaged, for quantised ones, and for parts that change what the network computes in an unknown way.
    """
    if isinstance(facts.draft.attention, Unknown):
        raise CannotExamineError("the headers of the weights are damaged, so that the draft cannot be run")
    named = canonical_names(facts.tensors, known.naming, strip_model=True)
    found: dict[str, TensorInfo] = {}
    for name in named.values():
        word = re.fullmatch(r"aux_norm_(low|mid|high)\.weight", name.canonical)
        canonical = f"fc_norm.{_WORDS.index(word[1])}.weight" if word else name.canonical
        found.setdefault(canonical, facts.tensors[name.stored])
    numbers = sorted({int(m[1]) for name in found if (m := _LAYER.fullmatch(name)) and "rotary_emb" not in m[2]})
    parts: dict[str, Part] = {}
    for canonical, info in found.items():
        inside = _LAYER.fullmatch(canonical)
        moved = f"layers.{numbers.index(int(inside[1]))}.{inside[2]}" if inside and int(inside[1]) in numbers else ""
        parts[moved or canonical] = Part(info, info.shape)
    strange = [part.name for name, part in parts.items() if _STRANGE.search(name)]
    if strange:
        raise CannotExamineError(f"the draft has parts whose use is not known here: {listing(strange)}")
    packed = tuple(f".{word}" for word in known.naming["stand_ins_for_weight"])
    for canonical, part in parts.items():
        used = canonical.startswith(_USED)
        if used and (canonical.endswith(packed) or (canonical.endswith(".weight") and part.info.dtype not in FLOATS)):
            why = f"{show(part.name)} is quantised ({show(part.info.dtype)}); only drafts with plain weights can be run"
            raise CannotExamineError(why)
    return _told_apart(parts), len(numbers)


def _told_apart(parts: dict[str, Part]) -> dict[str, Part]:
    """The same with qkv_proj and gate_up_proj as the parts that they were made of."""
    apart = dict(parts)
    for name, part in parts.items():
        fused = re.fullmatch(r"(layers\.\d+\.)(self_attn\.qkv_proj|mlp\.gate_up_proj)\.(weight|bias)", name)
        if not fused or not part.shape:
            continue
        total = part.shape[0]
        if fused[2] == "mlp.gate_up_proj":
            rows = {"mlp.gate_proj": total // 2, "mlp.up_proj": total // 2}
        else:
            output = parts.get(f"{fused[1]}self_attn.o_proj.weight")
            query = output.shape[1] if output is not None and len(output.shape) == 2 else 0
            keys = (total - query) // 2
            rows = {"self_attn.q_proj": query, "self_attn.k_proj": keys, "self_attn.v_proj": keys}
        first = 0
        for own, count in rows.items():
            apart.setdefault(f"{fused[1]}{own}.{fused[3]}", Part(part.info, (count, *part.shape[1:]), first))
            first += count
        if first != total or min(rows.values()) < 1:
            raise CannotExamineError(f"{show(part.name)} has {total} rows, which cannot be told apart")
        del apart[name]
    return apart


def check_parts(anatomy: Anatomy, facts: Facts) -> None:
    """Raise `CannotExamineError` where a part is missing or has not the shape that the others make it."""
    wanted = list(expected(anatomy, facts))
    for name, _, needed in wanted:
        if needed and name not in anatomy.parts:
            raise CannotExamineError(f"the draft has no {show(name)}, so that it cannot be run")
    for name, shape, _ in wanted:
        part = anatomy.parts.get(name)
        if part is None or part.shape == shape or (name == "mask_hidden" and part.info.elements == shape[-1]):
            continue
        raise CannotExamineError(
            f"{show(part.name)} has the shape {list(part.shape)} where the rest of the draft makes it {list(shape)};"
            " put that right before it is run"
        )


def expected(anatomy: Anatomy, facts: Facts) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """(canonical name, shape, whether it must be there) of every part that the network uses."""
    hidden, joined = anatomy.hidden, anatomy.states * anatomy.target_width
    yield "fc.weight", (hidden, joined), anatomy.states > 1
    yield "fc.bias", (hidden,), False
    for number in range(anatomy.states):
        yield f"fc_norm.{number}.weight", (anatomy.target_width,), anatomy.fc_norm
    yield "input_norm.weight", (joined,), False
    yield "norm.weight", (hidden,), not _off(facts, "use_last_layernorm")
    yield "lm_head.weight", (anatomy.draft_vocab_size, hidden), False
    yield "lm_head.bias", (anatomy.draft_vocab_size,), False
    yield "embed_tokens.weight", (anatomy.vocab_size, hidden), False
    yield "mask_hidden", (1, 1, joined), anatomy.parallel
    for number in range(anatomy.layers):
        at = f"layers.{number}."
        taken = 2 * hidden if number == 0 else hidden
        if number == 0:
            yield at + "hidden_norm.weight", (hidden,), not _off(facts, "use_aux_hidden_state")
            yield at + "input_layernorm.weight", (hidden,), not _off(facts, "use_input_layernorm_in_first_layer")
        else:
            yield at + anatomy.first_norms[number - 1] + ".weight", (hidden,), True
        yield at + "post_attention_layernorm.weight", (hidden,), True
        yield from _attention(anatomy, at, taken)
        yield from _feed_forward(anatomy, at)


def _attention(anatomy: Anatomy, at: str, taken: int) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    at += "self_attn."
    heads, size, latent = anatomy.heads, anatomy.head_dim, anatomy.latent
    if latent is None:
        rows, keys = heads * size, anatomy.kv_heads * size
        for name, count in (("q_proj", rows), ("k_proj", keys), ("v_proj", keys)):
            yield f"{at}{name}.weight", (count, taken), True
            yield f"{at}{name}.bias", (count,), False
        both = anatomy.attention == "qwen3"
        yield at + "q_norm.weight", (size,), both
        yield at + "k_norm.weight", (size,), both
        values = rows
    else:
        if latent.query is None:
            yield at + "q_proj.weight", (heads * size, taken), True
        else:
            yield at + "q_a_proj.weight", (latent.query, taken), True
            yield at + "q_a_proj.bias", (latent.query,), False
            yield at + "q_a_layernorm.weight", (latent.query,), True
            yield at + "q_b_proj.weight", (heads * size, latent.query), True
        low = latent.key_value + latent.turned
        yield at + "kv_a_proj_with_mqa.weight", (low, taken), True
        yield at + "kv_a_proj_with_mqa.bias", (low,), False
        yield at + "kv_a_layernorm.weight", (latent.key_value,), True
        yield at + "kv_b_proj.weight", (heads * (latent.plain + latent.value), latent.key_value), True
        values = heads * latent.value
    yield at + "o_proj.weight", (anatomy.hidden, values), True
    yield at + "o_proj.bias", (anatomy.hidden,), False


def _feed_forward(anatomy: Anatomy, at: str) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    at += "mlp."
    up = anatomy.parts.get(at + "up_proj.weight")
    inner = up.shape[0] if up is not None and up.shape else 0
    for name in ("gate_proj", "up_proj"):
        yield f"{at}{name}.weight", (inner, anatomy.hidden), True
        yield f"{at}{name}.bias", (inner,), False
    yield at + "down_proj.weight", (anatomy.hidden, inner), True
    yield at + "down_proj.bias", (anatomy.hidden,), False


def _off(facts: Facts, flag: str) -> bool:
    stated = facts.config.flag(flag)
    return stated is not None and stated.value is False
