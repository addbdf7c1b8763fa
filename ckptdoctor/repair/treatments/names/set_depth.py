"""num_hidden_layers says how many layers are stored.

SGLang (from 0.5.12) and vLLM (from 0.11.1) build as many layers as the config says; older ones refuse more than one.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import Edit, SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import known_or

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """The depth, where it was read, becomes the number of stored layers; layer_types beside it is made as long.

    It rests on no assumption where the one stored layer has a name without a number, which leaves room for one only.
    Refused where a layer in the middle is missing, where layer_types names several kinds, and where layers with numbers
    are fewer than declared and the number is not that of the target: a conversion may have lost the others.
    """
    draft = case.facts.draft
    stored, names, key = known_or(draft.depth_stored, 0), known_or(draft.names, None), draft.depth_claimed_key
    if names is None or key is None or not stored:
        raise RefusedError("unread")
    gap = next((m.where for m in names.missing if m.whole), None)
    if gap is not None:
        raise RefusedError("gap", layer=gap)
    fewer = draft.depth_claimed is not None and stored < draft.depth_claimed
    if fewer and not names.numberless and not draft.depth_of_target:
        raise RefusedError("lost", stored=stored, declared=draft.depth_claimed)
    edits: list[Edit] = [SetConfig(key, stored)]
    beside = key.removesuffix("num_hidden_layers") + "layer_types"
    types = case.facts.config.at(beside)
    if types is not None and isinstance(types.value, list) and types.value and len(types.value) != stored:
        if any(kind != types.value[0] for kind in types.value):
            raise RefusedError("kinds", place=beside)
        edits.append(SetConfig(beside, [types.value[0]] * stored))
    assumption = None if fewer and names.numberless else "none_lost" if fewer else "all_trained"
    return Proposed(tuple(edits), subject="num_hidden_layers", assumption=assumption)
