"""Biases that an engine builds and the file does not have are stored as zeros.

A layer without bias computes what one with a bias of zeros does. SGLang's EAGLE-1 classes always build fc.bias, which
keeps its random values beside a draft that was trained without (sgl-project/sglang#5773).
"""

from __future__ import annotations

from ckptdoctor.repair.edits import AddTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.serving import LoadPlan

__all__ = ["propose"]

_FLOATS = ("BF16", "F16", "F32")
_SWITCHES = ("bias", "attention_bias", "mlp_bias")


def propose(case: Case) -> Proposed:
    """Zeros of [rows of the weight], in the weight's dtype and beside its name, for every bias left random.

    Refused where the config says that there are biases (theirs are lost then), where one part of a fused bias is
    stored, and where the named engines would not serve by it.
    """
    plans = [plan for plan in case.plans if f"{plan.engine}=={plan.version}" in case.finding_engines]
    if not plans:
        raise RefusedError("no_engine")
    declared = next((s for s in _SWITCHES if (f := case.facts.config.at(s)) and f.value is True), None)
    if declared is not None:
        raise RefusedError("declared", field=declared)
    edits = {edit.name: edit for plan in plans for edit in _biases(case, plan)}
    made = tuple(edits.values())
    for now, after in zip(case.plans, case.plans_after(made), strict=True):
        if len(after.errors) > len(now.errors):
            raise RefusedError("stops", engine=after.label, reason=after.errors[0].reason)
        if now in plans and after.left_random:
            raise RefusedError("no_place", engine=after.label, name=after.left_random[0])
    return Proposed(made, subject=f"biases, {made[0].name} first")


def _biases(case: Case, plan: LoadPlan) -> list[AddTensor]:
    by_name = {parameter.name: parameter for parameter in plan.parameters}
    edits = []
    for name in plan.left_biases:
        weight = by_name.get(f"{name.removesuffix('bias')}weight")
        if by_name[name].state == "partly":
            raise RefusedError("partly", engine=plan.label, name=name)
        if weight is None or weight.state != "loaded" or not all(key.endswith(".weight") for key in weight.keys):
            raise RefusedError("no_weight", engine=plan.label, name=name)
        for key in weight.keys:
            info = case.facts.tensors[key]
            if info.dtype not in _FLOATS or len(info.shape) != 2:
                raise RefusedError("no_weight", engine=plan.label, name=name)
            edits.append(AddTensor(f"{key.removesuffix('weight')}bias", info.dtype, info.shape[:1]))
    return edits
