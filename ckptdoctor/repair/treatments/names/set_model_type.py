"""A model_type for a config that has none: the one of the stored attention.

transformers 5 reads no config without it (SGLang from 0.5.10, vLLM from 0.22.0); transformers 4 guesses from the path.
"""

from __future__ import annotations

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import score
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """`llama` or `qwen3`, by the norms that are stored.

    It rests on no assumption where the config states every field that the type would fill with a default. Refused
    for latent attention, which several types have with different defaults.
    """
    attention = case.facts.draft.attention
    if isinstance(attention, Unknown):
        raise RefusedError("unread")
    naming, config = knowledge().naming, case.facts.config
    kind = naming["model_types"].get(attention)
    if kind is None:
        raise RefusedError("several_types")
    edits = (SetConfig("model_type", kind),)
    if case.engines:
        facts = case.after(edits)
        for plan, now in zip(case.plans_after(edits), case.plans, strict=True):
            if score(plan, facts) > score(now, case.facts):
                raise RefusedError("worse", engine=plan.label, kind=kind)
    absent = [
        key
        for key in naming["filled_by_model_type"]
        if config.at(key) is None and config.at(f"rope_parameters.{key}") is None
    ]
    return Proposed(edits, subject="model_type", assumption="defaults" if absent else None)
