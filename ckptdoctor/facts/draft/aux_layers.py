"""Captured target layers: which ids the config names, where, and what they can mean.

Boundary b is the residual stream after b decoder layers (0: the embedding output, L: after the last
layer). Writers put two things under the same key: boundaries, or the number of the layer whose output
is meant (boundary less 1). Without an engine only ids that neither allows are impossible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import Algorithm
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown

__all__ = ["AuxLayers", "AuxSource", "read_aux_layers"]

IDS_LIMIT = 1024


@dataclass(frozen=True)
class AuxSource:
    """One place of the config that names captured layers."""

    key: str
    line: int | None
    ids: tuple[int, ...]
    means: str
    lowest: int
    highest_is_depth: bool


@dataclass(frozen=True)
class MalformedIds:
    """A place that should hold whole numbers and holds something else."""

    key: str
    line: int | None
    value: Any


@dataclass(frozen=True)
class Disagreement:
    """Two places that name different layers, and not the same layers in the two ways of counting."""

    first: AuxSource
    second: AuxSource


@dataclass(frozen=True)
class AuxLayers:
    """The captured layers as the draft's config has them.

    `used` is False when the config says that the draft takes the final state only. `ids`, `key` and
    `line` are those of the first place that names any. `claimed` is the number of captured layers: the
    declared number, else the number of ids, else what the algorithm takes by habit. `depth` is the
    target's number of layers, from the target or from the draft's own record of it (`recorded_depth`).
    `guess` is what engines capture when no ids are there.
    """

    used: bool
    ids: tuple[int, ...] | None
    key: str | None
    line: int | None
    sources: tuple[AuxSource, ...]
    malformed: tuple[MalformedIds, ...]
    claimed: Known[int]
    declared: int | None
    depth: Known[int]
    recorded_depth: int | None
    lowest: int
    highest: Known[int]
    too_low: tuple[int, ...]
    too_high: Known[tuple[int, ...]]
    duplicates: tuple[int, ...]
    ascending: bool
    touches_embedding: bool
    disagreement: Disagreement | None
    guess: str


def read_aux_layers(
    config: Config, rows: list[dict[str, Any]], algorithm: Algorithm, target: Target | None
) -> AuxLayers:
    """Read the captured layers from every place in `rows` (rules/facts/fields.yaml, `aux_layer_ids`)."""
    sources: list[AuxSource] = []
    malformed: list[MalformedIds] = []
    for row in rows:
        field = config.at(row["path"])
        if field is None:
            continue
        value = field.value
        if not isinstance(value, list) or len(value) > IDS_LIMIT or any(type(v) is not int for v in value):
            malformed.append(MalformedIds(field.key, field.line, value))
            continue
        # An EAGLE-3 draft may name its layers under any of these keys; both ways of counting stay open.
        either = not algorithm.block
        sources.append(
            AuxSource(
                key=field.key,
                line=field.line,
                ids=tuple(value),
                means="either" if either else row["means"],
                lowest=-1 if either else row["lowest"],
                highest_is_depth=either or row["highest"] == "L",
            )
        )
    flag = config.flag("use_aux_hidden_state")
    first = next((s for s in sources if s.ids), None)
    ids = first.ids if first else None
    declared_field = config.size("num_aux_hidden_states")
    declared = declared_field.value if declared_field else None
    recorded = _recorded(config, ids, algorithm)
    depth = _depth(recorded, target)
    lowest = first.lowest if first else -1
    highest: Known[int] = depth
    if not isinstance(depth, Unknown) and first and not first.highest_is_depth:
        highest = depth - 1
    too_high: Known[tuple[int, ...]] = ()
    if ids:
        too_high = highest if isinstance(highest, Unknown) else tuple(i for i in ids if i > highest)
    return AuxLayers(
        used=flag is None or bool(flag.value),
        ids=ids,
        key=first.key if first else None,
        line=first.line if first else None,
        sources=tuple(sources),
        malformed=tuple(malformed),
        claimed=_claimed(ids, declared, algorithm),
        declared=declared,
        depth=depth,
        recorded_depth=recorded,
        lowest=lowest,
        highest=highest,
        too_low=tuple(i for i in ids or () if i < lowest),
        too_high=too_high,
        duplicates=tuple(sorted({i for i in ids or () if (ids or ()).count(i) > 1})),
        ascending=list(ids or ()) == sorted(ids or ()),
        touches_embedding=bool(ids) and min(ids or (1,)) in (-1, 0),
        disagreement=_disagreement(sources),
        guess=_guess(depth),
    )


def _claimed(ids: tuple[int, ...] | None, declared: int | None, algorithm: Algorithm) -> Known[int]:
    if declared is not None and ids is None:
        return declared
    if ids is not None:
        return len(ids)
    if algorithm.captures is not None:
        return algorithm.captures
    return Unknown("the ids of the captured layers in config.json")


def _recorded(config: Config, ids: tuple[int, ...] | None, algorithm: Algorithm) -> int | None:
    """The target's depth as the draft's config has it.

    DSpark drafts for Kimi K3 count their captured layers in num_target_layers (vLLM k3_dspark.py 0.33.0 insists on it).
    """
    recorded = config.size("num_target_layers")
    if recorded is None or (algorithm.kind.ids_counted_in_depth and ids is not None and recorded.value == len(ids)):
        return None
    return int(recorded.value)


def _depth(recorded: int | None, target: Target | None) -> Known[int]:
    if target is not None and not isinstance(target.num_layers, Unknown):
        return target.num_layers
    return recorded if recorded is not None else Unknown("the target (--target PATH)")


def _disagreement(sources: list[AuxSource]) -> Disagreement | None:
    filled = [s for s in sources if s.ids]
    for other in filled[1:]:
        first = filled[0]
        same = first.ids == other.ids
        shift = {b - a for a, b in zip(first.ids, other.ids, strict=False)}
        counted_otherwise = len(first.ids) == len(other.ids) and shift in ({1}, {-1})
        if not same and not counted_otherwise:
            return Disagreement(first, other)
    return None


def _guess(depth: Known[int]) -> str:
    """What SGLang, vLLM, llama.cpp and the EAGLE reference capture by themselves: boundaries 2, n//2, n-3."""
    if isinstance(depth, Unknown):
        return "boundaries [2, n//2, n-3] of a target with n layers"
    return f"boundaries [2, {depth // 2}, {depth - 3}]"
