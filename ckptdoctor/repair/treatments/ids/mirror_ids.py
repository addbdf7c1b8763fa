"""The ids of the captured layers of an EAGLE-3 draft, in the place where EAGLE-3 classes look for them.

A list under another name (`target_layer_ids` of block drafters, `feature_layers`) is not read by the EAGLE-3 classes of
SGLang in any release, nor by the V1 runner of vLLM.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import Edit, SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import known_or

__all__ = ["propose"]

_PLACE = "eagle_config.eagle_aux_hidden_state_layer_ids"


def propose(case: Case) -> Proposed:
    """The same numbers as `eagle_config.eagle_aux_hidden_state_layer_ids`, and how many they are.

    Refused unless fc takes as many states as there are ids, and where a named release would serve the draft worse.
    """
    draft = case.facts.draft
    ids, fc = draft.aux.ids, known_or(draft.fc, None)
    if fc is None or ids is None or fc.states != len(ids) or len(set(ids)) < len(ids):
        raise RefusedError("count", place=draft.aux.key)
    edits: list[Edit] = [SetConfig(_PLACE, list(ids))]
    if draft.aux.declared is None:
        edits.append(SetConfig("num_aux_hidden_states", len(ids)))
    for after, before in zip(case.plans_after(tuple(edits)), case.plans, strict=True):
        if after.outcome.worth < before.outcome.worth:
            raise RefusedError("worse", engine=before.label)
    return Proposed(tuple(edits), subject="the place of the captured layers", assumption="layer_outputs")
