"""What a release makes of the MTP layers of a checkpoint: the named variants of the contract's section `mtp`.

The classes of MTP layers have no parameter table in the contracts; what is known is where their loaders look, which
tensors they insist on, and what becomes of those that are missing, or that they have no place for. What is not known to
be wrong stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.serving.contract.contracts import Release
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.parameters.mtp_parts import MODULE, Gap, gaps, plain_gaps, strangers, with_text_config
from ckptdoctor.serving.plan import LoadPlan, Refusal
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import listing, show

__all__ = ["mtp_row", "settle_mtp"]

_SHOWN = 3


def mtp_row(model_class: str | None, release: Release) -> Mapping[str, Any] | None:
    """The row of the contract's section `mtp` for this class in this release."""
    rows: Sequence[Mapping[str, Any]] = release.contract.raw.get("mtp", ())
    return next((r for r in rows if model_class in r["names"] and release.holds(r)), None)


def settle_mtp(plan: LoadPlan, facts: Facts, release: Release, settings: Settings) -> LoadPlan:
    """`plan` with what the release makes of the MTP layers, where its contract says so."""
    mtp, row = facts.mtp, mtp_row(plan.model_class, release)
    # A model that lost its MTP layers is no draft by its tensors, and is taken for one by its class all the same.
    if mtp is None or row is None or plan.errors or mtp.kind == "dspark" or not mtp.complete:
        return plan
    reader = release.reader()
    reader.note(row)
    executed = reader.evidence.executed
    plan = replace(plan, loading_executed=executed, wiring_executed=executed)
    if (reason := _count(row, mtp)) is not None:
        return _refused(plan, reason, about="")
    stems = _wanted(row, mtp)
    if stems is None:
        return plan
    first = stems[min(stems)]
    plan = replace(plan, wiring={**plan.wiring, "mtp": first})
    found = {n: stem for n, stem in stems.items() if mtp.stems.get(n) == stem}
    if not found:
        return _absent(plan, row, mtp, facts, first)
    return _present(plan, row, mtp, facts, release, stems, found, with_text_config(settings))


def _count(row: Mapping[str, Any], mtp: MtpHeads) -> str | None:
    """Why the declared number of layers ends the start, if it does."""
    count, key = row.get("count"), show(mtp.declared_key)
    if count is not None and mtp.declared is not None and mtp.declared != count:
        return f"{key} is {mtp.declared}, and this class takes {count} MTP layer"
    if row.get("none_declared") == "stop" and mtp.declared == 0:
        return f"{key} is 0, and the number of tokens to guess is divided by it"
    return None


def _absent(plan: LoadPlan, row: Mapping[str, Any], mtp: MtpHeads, facts: Facts, first: str) -> LoadPlan:
    """Nothing is stored where the class looks."""
    stored = mtp.kind != "none"
    how = row.get("elsewhere", row["absent"]) if stored else row["absent"]
    if _stops(how, facts):
        claim = "" if mtp.declared is None else f", and {show(mtp.declared_key)} is {mtp.declared}"
        if not stored:
            return _refused(plan, f"no MTP layer is stored at {first}*{claim}", "mtp_absent")
        return _refused(plan, f"no MTP layer is stored at {first}*; it is at {show(mtp.where)}")
    values = {"wanted": f"{first}*", "stored": show(mtp.where)}
    return _broken(plan, Reason("broken", "mtp_not_found" if stored else "mtp_absent", values))


def _present(
    plan: LoadPlan,
    row: Mapping[str, Any],
    mtp: MtpHeads,
    facts: Facts,
    release: Release,
    stems: Mapping[int, str],
    found: Mapping[int, str],
    settings: Settings,
) -> LoadPlan:
    """The layers are there: which of them, or of their parts, are not, and what is stored besides."""
    parts = release.contract.raw["mtp_parts"]
    family = parts["families"].get(row.get("family"))
    quantised = _is_quantised(facts)
    if family is not None and mtp.projections:
        wrong = mtp.projections[0]
        width = wrong.rows if wrong.hidden is None else wrong.hidden
        reason = f"{show(wrong.name)} is {[wrong.rows, wrong.columns]}; the projection takes {[width, 2 * width]}"
        return _refused(plan, reason, "")
    lost: list[Gap] = []
    for number, stem in stems.items():
        if number not in found and number != MODULE:
            if _stops(row["absent"], facts):
                claim = "" if mtp.declared is None else f", and {show(mtp.declared_key)} is {mtp.declared}"
                return _refused(plan, f"no tensor is stored at {stem}*{claim}", "mtp_absent")
            lost.append(Gap(f"{stem}*", "own", True))
        elif family is not None:
            lost += gaps(family, mtp, stem, number, settings)
    if family is None:
        lost = plain_gaps(parts, mtp)
    elif not quantised and row.get("unknown_name") == "stop" and (names := strangers(family, mtp, found)):
        reason = f"{listing([show(n) for n in names], _SHOWN)} {_name(names)} no parameter of this class"
        return _refused(plan, reason, "mtp_name")
    stopping = [] if quantised else [gap for gap in lost if _ends(row.get("missing", "keep_initial"), gap)]
    if stopping:
        lacking = listing([show(gap.name) for gap in stopping], _SHOWN)
        return _refused(plan, f"no tensor is stored for {lacking}", "mtp_parts")
    return _with_losses(plan, row, mtp, lost)


def _with_losses(plan: LoadPlan, row: Mapping[str, Any], mtp: MtpHeads, lost: Sequence[Gap]) -> LoadPlan:
    """What keeps its initial values without a message, and layers that are loaded over each other."""
    names = tuple(show(gap.name) for gap in lost)
    where = {"stored": show(mtp.where)}
    if any(gap.kind not in ("norm", "bias") for gap in lost):
        return _broken(plan, Reason("broken", "mtp_incomplete", where, names))
    if lost:
        return _degraded(plan, Reason("degraded", "mtp_parts_left", where, names))
    if row.get("layers") == "into_one" and len(mtp.indices) > 1:
        values = {"count": len(mtp.indices), "last": show(mtp.stems[max(mtp.indices)])}
        return _degraded(plan, Reason("degraded", "mtp_into_one", values))
    return plan


def _broken(plan: LoadPlan, reason: Reason) -> LoadPlan:
    return replace(plan, outcome=Outcome.BROKEN, causes=(*plan.causes, reason))


def _degraded(plan: LoadPlan, reason: Reason) -> LoadPlan:
    """That something is not as trained is certain, whatever else is open."""
    return replace(plan, outcome=Outcome.DEGRADED, causes=(*plan.causes, reason))


def _refused(plan: LoadPlan, reason: str, about: str = "mtp") -> LoadPlan:
    return replace(plan, outcome=Outcome.REFUSED, errors=(Refusal("load", reason, about),))


def _name(names: Sequence[str]) -> str:
    return "names" if len(names) == 1 else "name"


def _ends(missing: str, gap: Gap) -> bool:
    """Whether the load stops for a tensor that is not stored.

    `keep_initial`: for none; `stop`: for every parameter that gets nothing at all; `stop_if_plain`: for norms and for a
    Linear of torch itself.
    """
    if missing == "stop":
        return gap.whole
    return missing == "stop_if_plain" and gap.kind in ("norm", "torch")


def _wanted(row: Mapping[str, Any], mtp: MtpHeads) -> dict[int, str] | None:
    """The stems that a loader looks for, by the number of the layer.

    `behind_depth`: model.layers.num_hidden_layers. `behind_depth_or_first`: the same, and model.layers.0 where
    num_hidden_layers is 1. `mtp`: mtp.* and mtp.layers.0.*. `mtp_layers`: model.mtp_layers.0.*. `indexed`:
    model.mtp_block.0.* and what belongs to it. With `layers: declared` all that the config counts.
    """
    looks = row["looks"]
    count = max(mtp.declared or 1, 1) if row.get("layers") == "declared" else 1
    if looks in ("mtp", "mtp_layers", "indexed"):
        before = {"mtp": "mtp.layers.", "mtp_layers": "model.mtp_layers.", "indexed": "model.mtp_block."}[looks]
        module = {MODULE: "mtp."} if looks == "mtp" else {}
        return module | {n: f"{before}{n}." for n in range(min(count, 64))}
    if mtp.depth is None:
        return None
    first = 0 if looks == "behind_depth_or_first" and mtp.depth == 1 else mtp.depth
    return {n: f"model.layers.{n}." for n in range(first, first + min(count, 64))}


def _is_quantised(facts: Facts) -> bool:
    return facts.config.at("quantization_config") is not None or facts.files.quant_config is not None


def _stops(absent: str, facts: Facts) -> bool:
    """Whether the load stops for an MTP layer without tensors: `stop`, `keep_initial`, or `stop_unless_quantised`."""
    if absent == "stop_unless_quantised":
        return not _is_quantised(facts)
    return absent == "stop"
