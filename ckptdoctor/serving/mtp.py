"""Whether a release finds the MTP layers of a checkpoint: the named variants of the contract's section `mtp`.

The classes of MTP layers have no parameter table in the contracts; what is known is where their loaders look, and what
becomes of a layer that is not there.
"""

from __future__ import annotations

from dataclasses import replace

from ckptdoctor.facts import Facts
from ckptdoctor.facts.mtp import MtpHeads
from ckptdoctor.serving.contracts import Release
from ckptdoctor.serving.plan import LoadPlan, Refusal
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show

__all__ = ["settle_mtp"]


def settle_mtp(plan: LoadPlan, facts: Facts, release: Release) -> LoadPlan:
    """`plan` with what the release makes of the MTP layers, where its contract says how it looks for them."""
    mtp = facts.mtp
    if mtp is None or plan.errors or facts.draft.algorithm != "mtp" or not mtp.complete:
        return plan
    rows = release.contract.raw.get("mtp", ())
    row = next((r for r in rows if plan.model_class in r["names"] and release.holds(r)), None)
    if row is None:
        return plan
    reader = release.reader()
    reader.note(row)
    executed = reader.evidence.executed
    count = row.get("count")
    if count is not None and mtp.declared is not None and mtp.declared != count:
        reason = f"{show(mtp.declared_key)} is {mtp.declared}, and this class takes {count} MTP layer"
        return _refused(plan, reason, executed, about="")
    wanted = _wanted(row["looks"], mtp)
    if wanted is None:
        return plan
    found = any(stem == wanted for stem in _stems(mtp))
    wiring = {**plan.wiring, "mtp": wanted}
    lacking = tuple(f"{gap.where}.{name}" for gap in (*mtp.gaps, *mtp.halves) for name in gap.names)
    if found and not lacking:
        return replace(plan, wiring=wiring, loading_executed=executed, wiring_executed=executed)
    values = {"wanted": f"{wanted}*", "stored": show(mtp.where)}
    if not found and _stops(row["absent"], facts):
        reason = f"no MTP layer is stored at {wanted}*; it is at {show(mtp.where)}"
        return _refused(replace(plan, wiring=wiring), reason, executed)
    # What becomes of a single part that is missing differs from part to part: some stop the load.
    cause = Reason("broken", "mtp_incomplete" if found else "mtp_not_found", values, lacking if found else ())
    broken = replace(plan, wiring=wiring, outcome="broken", causes=(*plan.causes, cause))
    return replace(broken, loading_executed=executed, wiring_executed=executed)


def _refused(plan: LoadPlan, reason: str, executed: bool, about: str = "mtp") -> LoadPlan:
    return replace(
        plan,
        outcome="refused",
        errors=(Refusal("load", reason, about),),
        loading_executed=executed,
        wiring_executed=executed,
    )


def _stems(mtp: MtpHeads) -> list[str]:
    """What stands before the parts of the first layer, or before those of the module."""
    if mtp.layout == "layers":
        return [f"{mtp.root}layers.{mtp.first}."]
    if mtp.layout == "mtp_layers":
        return [f"{mtp.root}mtp_layers.{mtp.first}."]
    return [f"{mtp.root}mtp."] if mtp.layout == "mtp" else []


def _wanted(looks: str, mtp: MtpHeads) -> str | None:
    """The stem that a loader looks for. `behind_depth`: model.layers.num_hidden_layers. `behind_depth_or_first`: the
    same, and model.layers.0 where num_hidden_layers is 1. `mtp`, `mtp_layers`: mtp.* and model.mtp_layers.0.*."""
    if looks == "mtp":
        return "mtp."
    if looks == "mtp_layers":
        return "model.mtp_layers.0."
    if mtp.depth is None:
        return None
    number = 0 if looks == "behind_depth_or_first" and mtp.depth == 1 else mtp.depth
    return f"model.layers.{number}."


def _stops(absent: str, facts: Facts) -> bool:
    """Whether the load stops for an MTP layer without tensors: `stop`, `keep_initial`, or `stop_unless_quantised`."""
    if absent == "stop_unless_quantised":
        return facts.config.at("quantization_config") is None and facts.files.quant_config is None
    return absent == "stop"
