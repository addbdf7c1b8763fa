"""The rotary base and scaling, which only `rope_parameters` gives, are written in the old spelling as well.

Readers of the old spelling then compute the frequencies that readers of the new one do; nothing is taken away.
"""

from __future__ import annotations

from ckptdoctor.facts.rope.positions import NEW_SPELLING, old_spelling
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]

# What both spellings call the same (transformers 5, modeling_rope_utils.py).
_KNOWN = (
    "rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
    "beta_slow", "short_factor", "long_factor", "low_freq_factor", "high_freq_factor", "mscale", "mscale_all_dim",
    "truncate", "partial_rotary_factor", "mrope_section", "mrope_interleaved",
)  # fmt: skip


def propose(case: Case) -> Proposed:
    """rope_theta, rope_scaling and partial_rotary_factor beside `rope_parameters`, as far as they are lacking.

    Refused when both spellings are there and differ, or when `rope_parameters` holds something else.
    """
    writable(case)
    positions, config = case.facts.draft.positions, case.facts.config
    if None not in (positions.old_base, positions.new_base) and positions.old_base != positions.new_base:
        raise RefusedError("differ", old=positions.old_base, new=positions.new_base)
    field = config.at(positions.place + NEW_SPELLING)
    new = field.value if field is not None and isinstance(field.value, dict) else {}
    strange = [key for key in new if key not in _KNOWN]
    if strange:
        raise RefusedError("strange", at=strange[0])
    said = old_spelling(new)
    scaling = config.at(f"{positions.place}rope_scaling")
    if scaling is not None and "rope_scaling" in said:
        old = scaling.value if isinstance(scaling.value, dict) else {}
        if any(key in new and new[key] != value for key, value in old.items()):
            raise RefusedError("scaling_differs")
    edits = tuple(SetConfig(positions.place + key, said[key]) for key in said if key in positions.only_new)
    if not edits:
        raise RefusedError("same")
    return Proposed(edits, subject="rope")
