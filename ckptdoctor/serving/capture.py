"""Which boundaries an engine release captures in a target, per phase.

`extend` is prefill and other eager passes, `verify` the verification pass run eagerly, `verify_graph`
the one replayed from a CUDA graph: some releases capture the graph before the configured ids are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts import Target
from ckptdoctor.facts.launch import Launch
from ckptdoctor.serving.contracts import Release
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.settings import Settings, evaluate
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown

__all__ = ["Captured", "capture", "to_boundaries"]

PHASES = ("extend", "verify", "verify_graph")


@dataclass(frozen=True)
class Captured:
    """The boundaries per phase (None: not known), where the ids came from, and what is refused or open.

    `final` says that the target's final state is taken instead of captured boundaries.
    """

    phases: Mapping[str, tuple[int, ...] | None]
    ids: tuple[int, ...] | None = None
    ids_from: str | None = None
    final: bool = False
    refusals: tuple[Refusal, ...] = ()
    unproven: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def capture(
    release: Release, settings: Settings, target: Target | None, launch: Launch | None, block: bool
) -> Captured:
    """What is captured for a draft whose config is `settings`. `block` is True for block drafters."""
    contract = release.contract
    unknown = dict.fromkeys(PHASES)
    if not contract.targets:
        return Captured(unknown, unproven=(f"which layers {contract.name} captures",))
    if target is None or isinstance(target.num_layers, Unknown):
        return Captured(unknown, unproven=("the captured layers: the target is not known (--target PATH)",))
    depth = target.num_layers
    row = _row(contract.targets["targets"], target.architecture)
    if row is None:
        name = show(target.architecture or "this target's class")
        return Captured(unknown, unproven=(f"the captured layers: {name} is not in the contract",))
    since = str(row["classes"].get(target.architecture, row["classes"].get("*", contract.releases[0])))
    if not release.has_reached(since):
        reason = f"{show(target.architecture)} cannot pass captured states on before {contract.name} {since}"
        return Captured(unknown, refusals=(Refusal("start", reason),))
    refused = _pipeline(release, launch)
    runner = _runner(release, launch)
    default = _default(release, row, depth)
    ids, place = _ids(release, settings, runner, block)
    if not block and ids is None and not _uses_aux(release, settings, runner):
        return Captured(unknown, final=True, refusals=refused)
    if ids is None:
        wanted: tuple[int, ...] = default
    else:
        variant = release.value(
            contract.targets.get("block_ids_to_boundaries") if block else row["ids_to_boundaries"], "same"
        )
        wanted = default if variant == "ignored" else to_boundaries(variant, ids, depth)
    reached, refusals, remarks = _reach(release, row, wanted, depth)
    if launch is not None and launch.two_batch_overlap and row.get("never_captured"):
        lost = release.value(row["never_captured"])
        if lost:
            remarks.append(f"two-batch overlap: boundaries with {lost} are not captured")
    graph: tuple[int, ...] | None = reached
    if release.value(contract.targets.get("graph_boundaries"), "same_as_eager") == "default" and not block:
        graph = default
    if launch is not None and not launch.cuda_graphs:
        graph = None
    phases = {"extend": reached, "verify": reached, "verify_graph": graph}
    return Captured(phases, ids, place, False, (*refused, *refusals), (), tuple(remarks))


def to_boundaries(variant: str, ids: Sequence[int], depth: int) -> tuple[int, ...]:
    """Config ids → boundaries, by the named variants of `ids_to_boundaries`."""
    shifted = tuple(i + 1 for i in ids)
    if variant in ("plus_one", "plus_one_and_default_too"):
        return shifted
    if variant == "plus_one_if_first_is_1":
        return shifted if ids and ids[0] == 1 else tuple(ids)
    if variant == "same_if_max_is_depth_else_plus_one":
        return tuple(ids) if ids and max(ids) == depth else shifted
    if variant == "same":
        return tuple(ids)
    raise ValueError(f"no such way from ids to boundaries: {variant}")


def _row(rows: Sequence[Mapping[str, Any]], architecture: str | None) -> Mapping[str, Any] | None:
    exact = next((r for r in rows if architecture in r["classes"]), None)
    return exact or next((r for r in rows if "*" in r["classes"]), None)


def _default(release: Release, row: Mapping[str, Any], depth: int) -> tuple[int, ...]:
    formula = release.value(row["default_boundaries"], ["2", "n//2", "n-3"])
    values = [evaluate(str(part), {"n": depth}, Settings({})) for part in formula]
    return tuple(sorted({int(v) for v in values if not isinstance(v, Unknown)}))


def _runner(release: Release, launch: Launch | None) -> str:
    """The model runner, for engines that have two: the launch line's word, else the release's default."""
    if launch is not None and launch.runner is not None:
        return launch.runner
    return str(release.value(release.contract.targets.get("runner"), "v1"))


def _ids(release: Release, settings: Settings, runner: str, block: bool) -> tuple[tuple[int, ...] | None, str | None]:
    targets = release.contract.targets
    if block:
        places = release.value(targets.get("block_ids_read_from"), ["dflash_config.target_layer_ids"])
    else:
        timeline = targets.get("ids_read_from_v2") if runner.startswith("v2") else None
        places = release.value(timeline or targets.get("ids_read_from"), [])
    for place in places:
        value = settings.get(place)
        if isinstance(value, list) and value and all(type(i) is int for i in value):
            return tuple(value), place
    return None, None


def _uses_aux(release: Release, settings: Settings, runner: str) -> bool:
    honoured = release.value(release.contract.targets.get("use_aux_hidden_state"), False)
    if isinstance(honoured, Mapping):
        honoured = honoured.get(runner, honoured.get("v1", False))
    if not honoured or honoured == "ignored":
        return True
    return settings.get("eagle_config.use_aux_hidden_state", True) is not False


def _pipeline(release: Release, launch: Launch | None) -> tuple[Refusal, ...]:
    if launch is None or launch.pipeline_size <= 1:
        return ()
    if release.value(release.contract.targets.get("pipeline"), "allowed") == "refuse_at_start":
        return (Refusal("start", "pipeline parallelism and speculation together are refused"),)
    return ()


def _reach(
    release: Release, row: Mapping[str, Any], wanted: Sequence[int], depth: int
) -> tuple[tuple[int, ...], list[Refusal], list[str]]:
    """The wanted boundaries that the forward really captures, in ascending order and once each."""
    low, high = (
        int(evaluate(str(v), {"n": depth}, Settings({}))) for v in release.value(row["reachable"], ["1", "n-1"])
    )
    refusals: list[Refusal] = []
    remarks: list[str] = []
    reached = {b for b in wanted if low <= b <= high}
    for boundary in sorted(set(wanted) - reached):
        side = "below" if boundary < low else "above"
        fate = str(release.value(row.get(side), "feature_missing"))
        where = f"boundary {boundary} of {depth}"
        if fate == "refuse_at_first_forward":
            refusals.append(Refusal("first_forward", f"{where} cannot be captured in this target class"))
        elif fate == "refuse_at_start":
            refusals.append(Refusal("start", f"{where} does not exist in this target class"))
        elif fate == "wraps":
            remarks.append(f"{where} wraps to another layer")
        else:
            remarks.append(f"{where} is never captured")
    return tuple(sorted(reached)), refusals, remarks
