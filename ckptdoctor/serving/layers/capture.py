"""Which boundaries an engine release captures in a target, per phase.

`extend` is prefill and other eager passes, `verify` the verification pass run eagerly, `verify_graph`
the one replayed from a CUDA graph: some releases capture the graph before the configured ids are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts import Target
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.contract.class_lists import lists_of
from ckptdoctor.serving.contract.contracts import Evidence, Reader, Release
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.layers.boundaries import default_boundaries, reach, spread, to_boundaries
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Captured", "capture", "final_state", "runner_of"]

PHASES = ("extend", "verify", "verify_graph")
BLOCK_IDS = "target_layer_ids"
"""Places that end so hold the ids of block drafters, which count layer outputs."""


@dataclass(frozen=True)
class Captured:
    """The boundaries per phase (None: not known), where the ids came from, and what is refused or open.

    `final` says that the target's final state is taken instead of captured boundaries. `evidence` is what it rests on.
    """

    phases: Mapping[str, tuple[int, ...] | None]
    evidence: Evidence
    ids: tuple[int, ...] | None = None
    ids_from: str | None = None
    final: bool = False
    refusals: tuple[Refusal, ...] = ()
    opens: tuple[Reason, ...] = ()
    remarks: tuple[str, ...] = ()


def capture(
    release: Release, settings: Settings, target: Target | None, launch: Launch | None, kind: str, block: bool
) -> Captured:
    """What is captured for a draft of the algorithm `kind` whose config is `settings`. `block`: block drafters."""
    reader, contract = release.reader(), release.contract
    unknown = dict.fromkeys(PHASES)

    def open_(reason: str, **values: str) -> Captured:
        return Captured(unknown, reader.evidence, opens=(Reason("open", reason, values),))

    if not contract.targets:
        return open_("no_targets", engine=contract.name)
    if target is None or isinstance(target.num_layers, Unknown):
        runners = ("v1", "v2")
        if not block and not any(_uses_aux(reader, settings, runner) for runner in runners):
            return Captured(unknown, reader.evidence, final=True)
        return open_("target_absent")
    depth = target.num_layers
    runner = str(runner_of(reader, target, launch))
    if not block and not _uses_aux(reader, settings, runner):
        return Captured(unknown, reader.evidence, final=True, refusals=tuple(_pipeline(reader, launch)))
    row = _row(contract.targets["targets"], target.architecture)
    refusals = [*_supported(reader, row, target, kind), *_pipeline(reader, launch)]
    if row is None:
        name = show(target.architecture or "a target without architectures")
        opens = () if refusals else (Reason("open", "target_unlisted", {"name": name}),)
        return Captured(unknown, reader.evidence, refusals=tuple(refusals), opens=opens)
    ids, place = _ids(reader, settings, runner, block)
    default = default_boundaries(reader, row, depth)
    if ids is None:
        wanted = default
        if block and reader.value(contract.targets.get("block_default_boundaries")) == "evenly_spread_plus_one":
            wanted = spread(settings, depth)
    else:
        counts_outputs = place is not None and place.endswith(BLOCK_IDS)
        timeline = contract.targets.get("block_ids_to_boundaries") if counts_outputs else row["ids_to_boundaries"]
        variant = reader.value(timeline, "same")
        wanted = default if variant == "ignored" else to_boundaries(variant, ids, depth)
    if block and ids is not None and any(not 0 <= i < depth for i in ids):
        refusals += _block_range(reader, ids, depth)
    reached, late, remarks = reach(reader, row, wanted, depth)
    refusals += late
    if len(set(wanted)) < len(wanted) and reader.value(row.get("repeated")) == "refuse_at_first_forward":
        refusals.append(Refusal("first_forward", f"a boundary is named twice: {list(wanted)}"))
    reached, late, more = _overlapped(reader, row, reached, target, depth, launch)
    refusals += late
    remarks += [*more, *_content(reader, row, launch)]
    graph: tuple[int, ...] | None = reached
    if reader.value(contract.targets.get("graph_boundaries"), "same_as_eager") == "default" and not block:
        graph = default
    if launch is not None and not launch.cuda_graphs:
        graph = None
    phases = {"extend": reached, "verify": reached, "verify_graph": graph}
    return Captured(phases, reader.evidence, ids, place, False, tuple(refusals), (), tuple(remarks))


def final_state(release: Release, launch: Launch | None) -> Captured:
    """For drafts that take the target's final state: nothing is captured."""
    reader = release.reader()
    refusals = tuple(_pipeline(reader, launch))
    return Captured(dict.fromkeys(PHASES), reader.evidence, final=True, refusals=refusals)


def _row(rows: Sequence[Mapping[str, Any]], architecture: str | None) -> Mapping[str, Any] | None:
    exact = next((r for r in rows if architecture in r["classes"]), None)
    return exact or next((r for r in rows if "*" in r["classes"]), None)


def _supported(reader: Reader, row: Mapping[str, Any] | None, target: Target, kind: str) -> list[Refusal]:
    """A refusal where this release cannot capture in the target's class, or does not admit its model type."""
    name, engine, lists = show(target.architecture), reader.contract.name, lists_of(reader.release)
    if row is None or "*" not in row["classes"]:
        # What a start asks the class for: a list read whole is proof either way, a row without a list is one way only.
        passes = None if target.architecture is None else lists.captures(kind, target.architecture)
        since = row["classes"].get(target.architecture) if row is not None else None
        if not passes and since is not None and not reader.has_reached(str(since)):
            return [Refusal("start", f"{name} cannot pass captured states on before {engine} {since}")]
        if passes is False:
            reader.note(lists.source_of("captures"))
            return [Refusal("start", f"{name} cannot pass captured states on in this release")]
    gone = row.get("removed", {}).get(target.architecture) if row is not None else None
    if gone is not None and reader.has_reached(str(gone)):
        return [Refusal("start", f"{name} is no longer known from {engine} {gone} on")]
    admitted = reader.value(reader.contract.targets.get("target_model_types"), ["*"])
    model_type = target.model_type
    if "*" not in admitted and model_type is not None and not any(word in model_type for word in admitted):
        return [Refusal("config", f"targets of model_type {show(model_type)} are not admitted")]
    return []


def runner_of(reader: Reader, target: Target | None, launch: Launch | None) -> Known[str]:
    """The model runner, for engines that have two: the launch line's word, else the default for this target."""
    if launch is not None and launch.runner is not None:
        return launch.runner
    return reader.release.part("runner", lambda inner: _runner(inner, target), reader)


def _runner(reader: Reader, target: Target | None) -> Known[str]:
    named = str(reader.value(reader.contract.targets.get("runner"), "v1"))
    if named in ("v1", "v2"):
        return named
    if target is None:
        return Unknown("the target (--target PATH)")
    when: Mapping[str, Any] = reader.value(reader.contract.targets.get("runner_v2_when"), {})
    if when.get("any"):
        return "v2"
    listed = target.architecture in when.get("architectures", ())
    if when.get("moe") is False and target.has_experts:
        listed = False
    if when.get("quantised") is False and target.is_quantised:
        listed = False
    if when.get("or_not_moe") and not target.has_experts and not (when.get("hybrid") is False and target.is_hybrid):
        listed = True
    return "v2" if listed else "v1"


def _ids(reader: Reader, settings: Settings, runner: str, block: bool) -> tuple[tuple[int, ...] | None, str | None]:
    targets = reader.contract.targets
    if block:
        places = reader.value(targets.get("block_ids_read_from"), [f"dflash_config.{BLOCK_IDS}"])
    else:
        timeline = targets.get("ids_read_from_v2") if runner == "v2" else None
        places = reader.value(timeline or targets.get("ids_read_from"), [])
    for place in places:
        value = settings.get(place)
        if isinstance(value, list) and value and all(type(i) is int for i in value):
            return tuple(value), place
    return None, None


def _uses_aux(reader: Reader, settings: Settings, runner: str) -> bool:
    honoured = reader.value(reader.contract.targets.get("use_aux_hidden_state"), False)
    if isinstance(honoured, Mapping):
        honoured = honoured.get(runner, False)
    return not honoured or settings.get("eagle_config.use_aux_hidden_state", True) is not False


def _pipeline(reader: Reader, launch: Launch | None) -> list[Refusal]:
    if launch is None or launch.pipeline_size <= 1:
        return []
    if reader.value(reader.contract.targets.get("pipeline"), "allowed") == "refuse_at_start":
        return [Refusal("start", "pipeline parallelism and speculation together are refused")]
    return []


def _overlapped(
    reader: Reader,
    row: Mapping[str, Any],
    reached: tuple[int, ...],
    target: Target,
    depth: int,
    launch: Launch | None,
) -> tuple[tuple[int, ...], list[Refusal], list[str]]:
    """What two-batch overlap leaves of the boundaries: its forward passes some layers without capturing them."""
    if launch is None or not launch.two_batch_overlap:
        return reached, [], []
    entry = next((r for r in reversed(row.get("never_captured", ())) if reader.has_reached(str(r["from"]))), None)
    if entry is None:
        return reached, [], []
    reader.note(entry)
    symbols = {"n": depth, "first_k_dense_replace": target.dense_layers}
    lost = [b for b in reached if evaluate(str(entry["value"]), {**symbols, "b": b}, Settings({})) is True]
    if not lost:
        return reached, [], []
    if entry.get("then") == "refuse_at_first_forward":
        return reached, [Refusal("first_forward", f"with two-batch overlap, boundaries {lost} cannot be captured")], []
    left = tuple(b for b in reached if b not in lost)
    return left, [], [f"with two-batch overlap, boundaries {lost} are never captured"]


def _content(reader: Reader, row: Mapping[str, Any], launch: Launch | None) -> list[str]:
    """What is captured otherwise than the boundary says."""
    found = []
    if reader.value(row.get("state"), "residual_stream") == "last_branch_without_residual":
        found.append("this target class captures the last branch without the residual, not the residual stream")
    pipeline = reader.value(reader.contract.targets.get("pipeline"), "allowed")
    if launch is not None and launch.pipeline_size > 1 and pipeline == "last_rank_counts_from_zero":
        found.append("with pipeline stages, layers are counted from zero on the last one: other layers are captured")
    return found


def _block_range(reader: Reader, ids: Sequence[int], depth: int) -> list[Refusal]:
    fate = reader.value(reader.contract.targets.get("block_out_of_range"), "feature_missing")
    stages = {"refuse_at_start": "start", "refuse_at_first_forward": "first_forward"}
    if fate not in stages:
        return []
    wrong = [i for i in ids if not 0 <= i < depth]
    return [Refusal(stages[fate], f"layer ids {wrong} do not exist in a target of {depth} layers")]
