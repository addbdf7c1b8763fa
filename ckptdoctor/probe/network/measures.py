"""The sizes of a draft, measured at its stored parts; the config gives what no tensor shows. No torch."""

from __future__ import annotations

from collections.abc import Mapping

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts
from ckptdoctor.probe.network.anatomy import Latent, Part
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["heads_of", "hidden_of", "latent_of", "states_of", "vocabulary_of"]

MOST_STATES = 1024
"""States that fc takes at most."""


def _shape(parts: Mapping[str, Part], name: str, dimensions: int = 2) -> tuple[int, ...]:
    part = parts.get(name)
    if part is None:
        raise CannotExamineError(f"the draft has no {show(name)}, so that it cannot be run")
    if len(part.shape) != dimensions or not all(part.shape):
        raise CannotExamineError(f"{show(part.name)} has the shape {list(part.shape)}, so that the draft cannot be run")
    return part.shape


def hidden_of(parts: Mapping[str, Part]) -> int:
    """H: what the first layer gives."""
    return _shape(parts, "layers.0.self_attn.o_proj.weight")[0]


def states_of(facts: Facts, parts: Mapping[str, Part], hidden: int) -> tuple[int, int]:
    """T and K: what fc takes, as the first of several opinions on T that fits."""
    if "fc.weight" not in parts and facts.draft.aux.used:
        raise CannotExamineError(
            "the draft has no fc.weight, so the captured states cannot be joined; ckptdoctor scan says what is missing"
        )
    if "fc.weight" not in parts:
        return hidden, 1
    total = _shape(parts, "fc.weight")[1]
    target, said = facts.target, facts.draft.aux.claimed
    claimed = known_or(said, 0)
    widths = [_shape(parts, "fc_norm.0.weight", 1)[0]] if "fc_norm.0.weight" in parts else []
    if target is not None and not isinstance(target.hidden_size, Unknown):
        widths.append(target.hidden_size)
    widths += [w for w in (facts.draft.target_hidden_size, hidden) if w]
    fits = 0 < claimed <= MOST_STATES and total % claimed == 0
    if fits and (total // claimed in widths or not any(total % width == 0 for width in widths)):
        return total // claimed, claimed
    width = next((w for w in widths if total % w == 0 and total // w <= MOST_STATES), None)
    if width is None:
        raise CannotExamineError(f"fc takes {total} values, which is no whole number of states of the target")
    return width, total // width


def latent_of(facts: Facts, parts: Mapping[str, Part]) -> Latent:
    """The sizes of MLA. Raises `CannotExamineError` where the config does not say how a head is parted."""
    sizes = {
        name: facts.config.size(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
    }
    lacks = [name for name, found in sizes.items() if found is None and name != "kv_lora_rank"]
    if lacks:
        raise CannotExamineError(f"the config gives no {' and no '.join(lacks)}, which MLA cannot be run without")
    plain, turned, value = (int(f.value) for n, f in sizes.items() if f is not None and n != "kv_lora_rank")
    low = "layers.0.self_attn.q_a_proj.weight"
    return Latent(
        query=_shape(parts, low)[0] if low in parts else None,
        key_value=_shape(parts, "layers.0.self_attn.kv_a_layernorm.weight", 1)[0],
        plain=plain, turned=turned, value=value,
    )  # fmt: skip


def heads_of(facts: Facts, parts: Mapping[str, Part], latent: Latent | None) -> tuple[int, int, int]:
    """Heads, heads of keys and values, and the size of a head, which the rows of the projections must bear out."""
    stated = facts.draft.heads
    if latent is not None:
        size = latent.plain + latent.turned
        query = "q_proj" if latent.query is None else "q_b_proj"
        rows = _shape(parts, f"layers.0.self_attn.{query}.weight")[0]
        if rows % size or (stated and stated != rows // size):
            raise CannotExamineError(f"{query} gives {rows} values, which are not those of {stated} heads of {size}")
        return rows // size, rows // size, size
    rows, keys = (_shape(parts, f"layers.0.self_attn.{name}_proj.weight")[0] for name in "qk")
    given = facts.config.size("head_dim")
    norm = parts.get("layers.0.self_attn.q_norm.weight")
    if norm is not None and len(norm.shape) == 1:
        size = norm.shape[0]
    elif given is not None and rows % given.value == 0:
        size = int(given.value)
    elif stated and rows % stated == 0:
        size = rows // stated
    else:
        raise CannotExamineError("neither head_dim nor num_attention_heads of the config fits the query projection")
    if not size or rows % size or keys % size or (rows // size) % (keys // size or 1):
        raise CannotExamineError(f"the projections give {rows} and {keys} values, which are no whole heads of {size}")
    return rows // size, keys // size, size


def vocabulary_of(facts: Facts, parts: Mapping[str, Part]) -> tuple[int, int, bool]:
    """The target's vocabulary, the number of draft ids, and whether the head is the embedding."""
    embedding = parts.get("embed_tokens.weight")
    target = facts.target.vocab_size if facts.target is not None else None
    size = embedding.shape[0] if embedding is not None else facts.draft.vocab_size
    if size is None and isinstance(target, int):
        size = target
    if not size:
        raise CannotExamineError("neither the config nor a tensor says how large the vocabulary is")
    head = parts.get("lm_head.weight")
    if head is not None:
        return size, head.shape[0], False
    claimed = facts.vocab.claimed_draft_size or size
    if not facts.draft.flags.tie_word_embeddings and "d2t" in parts and claimed < size:
        raise CannotExamineError("the draft has a vocabulary of its own and no lm_head, so that it cannot be run")
    return size, size, bool(facts.draft.flags.tie_word_embeddings)
