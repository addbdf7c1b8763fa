"""A size of the config that no tensor bears out becomes the one that all of them show.

One field at a time, and only when the draft then fits as a whole: heads and head_dim multiply each other, so where both
could be wrong nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.sizes import Size
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.attention_sizes import grouped_heads, latent_sizes
from ckptdoctor.repair.support.fields import set_field, standing
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["propose"]

_FIELDS: Mapping[str, str] = {
    "H": "hidden_size",
    "I": "intermediate_size",
    "V": "vocab_size",
    "QL": "q_lora_rank",
    "KL": "kv_lora_rank",
    "hd": "head_dim",
}
_LATENT = ("KA", "MQ", "KB", "MV")
_ROWS: Mapping[str, str] = {"Q": "num_attention_heads", "KV": "num_key_value_heads"}


def propose(case: Case, symbol: str, stored: int) -> Proposed:
    """The field behind `symbol` (of facts/sizes.py) set so that the tensors, which show `stored`, fit.

    Refused when the field is one factor of several that could be wrong, or when some tensor would still not fit.
    """
    wrong = {size.symbol: size for size in _sizes(case.facts)}
    if symbol in wrong and (disputed := wrong[symbol].disputed_by):
        raise RefusedError("disputed", tensor=wrong[symbol].tensor, stored=stored, proof=" and ".join(disputed))
    if symbol in _ROWS and (change := grouped_heads(case, wrong)) is not None:
        edits = tuple(edit for field, value in change.items() for edit in set_field(case, field, value))
        if not _fits(case.facts, case.after(edits), (*_ROWS, "hd")):
            raise RefusedError("disagree", field=next(iter(change)), value=change[next(iter(change))])
        return Proposed(edits, subject="+".join(change))
    if symbol in _LATENT:
        return _latent(case, wrong, stored)
    field, value = _correction(case, symbol, stored)
    edits = set_field(case, field, value)
    after = case.after(edits)
    settled = ("Q", "KV", "hd") if field == "head_dim" else (symbol,)
    if not _fits(case.facts, after, settled):
        raise RefusedError("disagree", field=field, value=value)
    return Proposed(edits, subject=field)


def _latent(case: Case, wrong: Mapping[str, Size], stored: int) -> Proposed:
    """The one field of latent attention with which every tensor fits. Refused where none or several do so."""
    found = []
    for change in latent_sizes(case, wrong):
        edits = tuple(edit for field, value in change.items() for edit in set_field(case, field, value))
        if _fits(case.facts, case.after(edits), _LATENT):
            found.append(Proposed(edits, subject=next(iter(change))))
    if len(found) != 1:
        raise RefusedError("several", stored=stored)
    return found[0]


def _correction(case: Case, symbol: str, stored: int) -> tuple[str, int]:
    if symbol in _FIELDS:
        return _FIELDS[symbol], stored
    if symbol not in _ROWS:
        raise RefusedError("several", stored=stored)
    if not standing(case, "head_dim"):
        heads = case.facts.draft.heads
        if symbol == "KV" and not any(size.symbol == "Q" for size in _sizes(case.facts)):
            raise RefusedError("kv_heads", stored=stored)
        rows = stored if symbol == "Q" else _claimed_by(case.facts, "Q")
        if not heads or rows % heads:
            raise RefusedError("indivisible", stored=rows, heads=heads)
        return "head_dim", rows // heads
    head_dim = _measured_head_dim(case)
    if head_dim is None:
        raise RefusedError("heads_or_dim", stored=stored)
    if stored % head_dim:
        raise RefusedError("indivisible", stored=stored, heads=head_dim)
    return _ROWS[symbol], stored // head_dim


def _measured_head_dim(case: Case) -> int | None:
    """The width of a head as its own norms show it (q_norm and k_norm have one weight for each value of a head)."""
    widths = {
        info.shape[0]
        for name, info in case.checkpoint.tensors.items()
        if name.endswith((".q_norm.weight", ".k_norm.weight")) and len(info.shape) == 1
    }
    return widths.pop() if len(widths) == 1 else None


def _claimed_by(facts: Facts, symbol: str) -> int:
    return next((size.stored for size in _sizes(facts) if size.symbol == symbol), 1)


def _sizes(facts: Facts) -> tuple[Size, ...]:
    return known_or(facts.draft.sizes, ())


def _fits(before: Facts, after: Facts, settled: tuple[str, ...]) -> bool:
    """Whether the size is right now, no other became wrong, and every tensor fits."""
    if isinstance(after.draft.shapes, Unknown) or after.draft.shapes:
        return False
    known = {size.symbol for size in _sizes(before)} - set(settled)
    if any(size.symbol not in known for size in _sizes(after)):
        return False
    fc = known_or(after.draft.fc, None)
    return fc is None or known_or(fc.mismatch, "none") == "none"
