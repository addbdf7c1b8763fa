"""Captured against trained boundaries: how far they are apart decides what becomes of the draft.

Layers shifted by one cost little: 0.10 accepted tokens (sgl-project/sglang#25454), 2.22 against 2.33
(sgl-project/sglang#32334), 5.56 against 6.61 for a DFlash draft; one report saw far more (vllm-project/vllm#43671: an
acceptance of 10 instead of 45 %). The embedding in place of a layer, a state too few or a far layer are another matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckptdoctor.sentences import numbers
from ckptdoctor.serving.layers.capture import Captured
from ckptdoctor.serving.layers.training import Trained
from ckptdoctor.serving.words import Reason

__all__ = ["distance", "layer_reasons"]

_BESIDE = 1
"""Layers between two states that are still much alike."""


def distance(captured: Sequence[int], trained: Sequence[int]) -> str:
    """`same`, `shifted` (each state is of the trained layer or of one beside it), or `far`."""
    if tuple(captured) == tuple(trained):
        return "same"
    if len(captured) != len(trained):
        return "far"
    pairs = list(zip(captured, trained, strict=True))
    if any(got == 0 and wanted != 0 for got, wanted in pairs):  # the embedding has passed no layer at all
        return "far"
    return "shifted" if all(abs(got - wanted) <= _BESIDE for got, wanted in pairs) else "far"


def layer_reasons(captured: Captured, trained: Trained) -> list[Reason]:
    """What is not as trained, and what stays open."""
    if captured.final or not any(b is not None for b in captured.phases.values()):
        return []
    readings = trained.readings or (() if trained.boundaries is None else (trained.boundaries,))
    phases = {p: b for p, b in captured.phases.items() if b is not None}
    if not readings:
        return [Reason("open", "trained_either", {"because": trained.because})]
    right = [r for r in readings if all(b == r for b in phases.values())]
    if right and trained.certain:
        return []
    if right:
        return [_open(right[0], trained, readings)]
    return [_wrong(phases, trained, readings)]


def _open(right: tuple[int, ...], trained: Trained, readings: Sequence[tuple[int, ...]]) -> Reason:
    """The release captures what one of several readings says."""
    if trained.boundaries is None:
        return Reason("open", "trained_either", {"because": trained.because})
    if right == trained.boundaries and (not trained.contested or len(readings) < 2):
        kind = "trained_unknown" if trained.supported else "trained_likely"
        return Reason("aside", kind, {"because": trained.because})
    other = next((r for r in readings if r != right), right)
    values = {"captured": numbers(right), "trained": numbers(other), "because": trained.because}
    return Reason("open", "two_readings", values)


def _wrong(phases: Mapping[str, Sequence[int]], trained: Trained, readings: Sequence[tuple[int, ...]]) -> Reason:
    """No reading is captured in every phase: as bad as the nearest one says, which is the least that is certain."""

    def worst(reading: tuple[int, ...]) -> str:
        return "far" if any(distance(b, reading) == "far" for b in phases.values()) else "shifted"

    nearest = min(readings, key=lambda r: (worst(r) == "far", r != trained.boundaries))
    wrong = {p: b for p, b in phases.items() if b != nearest}
    told = (nearest,) if trained.certain else readings
    values = {
        "captured": _in_phases(wrong, len(phases)),
        "trained": " or ".join(numbers(r) for r in told),
        "because": trained.because,
    }
    if worst(nearest) == "shifted":
        return Reason("degraded", "shifted_layers", values)
    return Reason("broken", "other_layers", values)


def _in_phases(wrong: Mapping[str, Sequence[int]], phases: int) -> str:
    """`[3, 31, 59]`, or `[2, 30, 58] in verify graph` where phases differ."""
    if len({tuple(b) for b in wrong.values()}) == 1 and len(wrong) == phases:
        return numbers(next(iter(wrong.values())))
    groups: dict[tuple[int, ...], list[str]] = {}
    for phase, boundaries in wrong.items():
        groups.setdefault(tuple(boundaries), []).append(phase.replace("_", " "))
    return ", ".join(f"{numbers(b)} in {' and '.join(phases_)}" for b, phases_ in groups.items())
