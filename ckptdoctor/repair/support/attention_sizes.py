"""Sizes of attention that the tensors settle although each is a factor of the rows that they show.

One field is taken for wrong where it alone explains every tensor and the config as it stands cannot be right otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckptdoctor.facts.draft.attention_geometry import target_kv_shape
from ckptdoctor.facts.draft.sizes import Size
from ckptdoctor.repair.plan.case import Case
from ckptdoctor.unknown import Unknown

__all__ = ["grouped_heads", "latent_sizes"]

_LATENT = ("num_attention_heads", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")


def grouped_heads(case: Case, wrong: Mapping[str, Size]) -> dict[str, int] | None:
    """The field that is wrong where rows of queries or of keys and values disagree with heads and head_dim.

    * num_key_value_heads stands nowhere, so that engines take num_attention_heads;
    * num_attention_heads and num_key_value_heads stand in each other's place;
    * head_dim gives no whole number of heads, or not the target's, and another one gives both numbers as they stand.

    None where more than one reading is left. `wrong` are the sizes that no tensor bears out, by symbol.
    """
    draft = case.facts.draft
    heads, groups, width = draft.heads, draft.kv_heads, draft.head_dim
    if not heads or not width or "hd" in wrong:
        return None
    if "KV" in wrong and "Q" not in wrong and groups is None:
        rows = wrong["KV"].stored
        fits = rows % width == 0 and heads % max(1, rows // width) == 0
        return {"num_key_value_heads": rows // width} if fits else None
    if "KV" not in wrong or "Q" not in wrong or not groups:
        return None
    queries, keys = wrong["Q"].stored, wrong["KV"].stored
    if groups > heads and (queries, keys) == (groups * width, heads * width) and groups % heads == 0:
        return {"num_attention_heads": groups, "num_key_value_heads": heads}
    if queries % heads or keys % groups or queries // heads != keys // groups:
        return None
    other = queries // heads
    target = target_kv_shape(case.facts.target)
    of_target = not isinstance(target, Unknown) and target.width == other
    return {"head_dim": other} if of_target or queries % width or keys % width else None


def latent_sizes(case: Case, wrong: Mapping[str, Size]) -> list[dict[str, int]]:
    """One field each of latent attention that gives the rows which are stored; the caller keeps those that fit."""
    fields = {name: case.facts.config.size(name) for name in (*_LATENT, "kv_lora_rank")}
    if any(field is None for field in fields.values()):
        return []
    now = {name: int(field.value) for name, field in fields.items() if field is not None}
    heads, rope, nope, value, rank = (now[name] for name in (*_LATENT, "kv_lora_rank"))
    rank = wrong["KL"].stored if "KL" in wrong else rank
    rows = {"KA": rank + rope, "MQ": heads * (nope + rope), "KB": heads * (nope + value), "MV": heads * value}
    rows |= {symbol: size.stored for symbol, size in wrong.items()}
    found = [
        {"qk_rope_head_dim": rows["KA"] - rank},
        {"qk_nope_head_dim": rows["MQ"] // heads - rope},
        {"v_head_dim": rows["MV"] // heads},
        {"num_attention_heads": rows["MV"] // value},
    ]
    return [change for change in found if all(v > 0 and v != now[name] for name, v in change.items())]
