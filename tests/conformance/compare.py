"""A plan against what the real loader did with the same draft: parameter by parameter, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckptdoctor.serving.plan import LoadPlan, Refusal

__all__ = ["CPU_ONLY", "CPU_STOPS", "Answer", "compare"]

_STAGES = ("config", "class", "construct", "load")
"""What the oracles reach: a refusal at the start, or at the first forward, comes after loading and is not seen."""

CPU_ONLY = {
    ("sglang", "recipe_config-size-disagrees"): "a CPU fills too small outputs with zeros; the narrow on a GPU stops",
    ("sglang-0.4.9", "recipe_tensor-shape-disagrees"): "a CPU fills too small inputs with zeros earlier than a GPU",
    ("vllm-0.18.0", "recipe_mla-eagle3"): "latent attention is not supported on a CPU",
    ("sglang", "recipe_kv-heads-missing"): "a CPU fills too small outputs with zeros; the narrow on a GPU stops",
    ("sglang", "recipe_map-dtype"): "a map of floats is marked like a weight, so its values are not its own",
    ("vllm", "recipe_map-dtype"): "a map of floats is marked like a weight, so its values are not its own",
    ("sglang", "recipe_class-of-other-attention"): "the config class of the model type decides head_dim, or is unknown",
}
"""Pairs that a load on a CPU, or the way it is watched, says nothing about, and why."""

CPU_STOPS = {
    ("sglang", "get_rope_cpu"): "latent attention on a CPU insists on rope scaling",
    ("vllm", "get_attn_backend_cls"): "latent attention is not supported on a CPU",
}
"""Functions that an engine calls on a CPU alone: an error that one of them raises says nothing, and why."""


_SHAPES = re.compile(r"is \[([\d, ]+)\]; .* takes \[([\d, ]+)\]$")


@dataclass(frozen=True)
class Answer:
    """`agree`, `refused` (both refuse), `differ`, `unknown` where the plan does not know what is loaded, or `silent`
    where the real load says nothing about the draft."""

    word: str
    differences: tuple[str, ...] = field(default=())


def compare(plan: LoadPlan, truth: Mapping[str, Any]) -> Answer:
    """`truth` is a result of `oracle_common`."""
    error = truth["error"]
    if {(plan.engine, truth["draft"]), (f"{plan.engine}-{plan.version}", truth["draft"])} & set(CPU_ONLY):
        return Answer("silent")
    if error is not None and (plan.engine, error.get("raised_in")) in CPU_STOPS:
        return Answer("silent")
    if error is not None and (error["type"] == "Ended" or error["stage"] in ("target config", "server", "groups")):
        return Answer("silent")
    refusals = [e for e in plan.errors if e.stage in _STAGES]
    if plan.is_load_open and not refusals:
        return Answer("unknown")
    if error is not None:
        if refusals:
            return Answer("refused")
        return Answer("differ", (f"the engine stops ({error['stage']}: {_short(error['message'])})",))
    if refusals and _fills_with_zeros(plan, refusals):
        return Answer("silent")
    if refusals:
        return Answer("differ", (f"the plan stops ({refusals[0].stage}: {refusals[0].reason}), the engine does not",))
    found = tuple(_differences(plan, truth))
    return Answer("differ", found) if found else Answer("agree")


def _fills_with_zeros(plan: LoadPlan, refusals: Sequence[Refusal]) -> bool:
    """Whether the plan stops for tensors alone that have too few rows: SGLang on a CPU fills those with zeros.

    layers/utils/common.py copies into the narrowed parameter there; the narrow of a GPU's path stops.
    """
    if plan.engine != "sglang" or any(refusal.stage != "load" for refusal in refusals):
        return False
    shapes = [_SHAPES.search(refusal.reason) for refusal in refusals]
    return all(found is not None and _has_too_few_rows(found[1], found[2]) for found in shapes)


def _has_too_few_rows(stored: str, taken: str) -> bool:
    rows, wanted = (list(map(int, text.split(", "))) for text in (stored, taken))
    return rows[0] < wanted[0] and rows[1:] == wanted[1:]


def _differences(plan: LoadPlan, truth: Mapping[str, Any]) -> Iterator[str]:
    planned = {p.name: sorted(p.keys) for p in plan.parameters if p.keys}
    loaded = {name: sorted(_sources(name, keys)) for name, keys in truth["loaded"].items()}
    for name in sorted(set(planned) | set(loaded)):
        if planned.get(name) != loaded.get(name):
            yield f"{name}: {loaded.get(name)} in the engine, {planned.get(name)} in the plan"
    yield from _sets("left alone", truth["untouched"], [p.name for p in plan.parameters if not p.keys])
    partly = [p.name for p in plan.parameters if p.keys and p.parts_missing]
    yield from _sets("partly filled", truth["partially"], partly)
    dropped = [
        s.name
        for s in plan.stored
        if s.parameter is None and s.fate != "rejected" and s.name != plan.wiring["map"] and not _is_t2d(s.name)
    ]
    yield from _sets("dropped", [n for n in truth["ignored"] if not _is_t2d(n)], dropped)
    shapes = {p.name: p.shape for p in plan.parameters}
    initial = {p.name: p.initial for p in plan.parameters}
    for name, holds in truth.get("initial", {}).items():
        if name in initial and initial[name] != holds:
            yield f"{name}: holds {holds} before loading in the engine, {initial[name]} in the plan"
    for name, shape in truth["parameters"].items():
        planned_shape = shapes.get(name)
        if name not in shapes:
            yield f"{name}: a parameter that the plan does not have"
        elif planned_shape is not None and not _same(planned_shape, shape):
            yield f"{name}: {list(shape)} in the engine, {list(planned_shape)} in the plan"


def _sources(name: str, keys: Sequence[str]) -> list[str]:
    """A map keeps its values, so a bias of one zero is found in a map that begins with zero; the map is what counts."""
    maps = [key for key in keys if key.endswith("d2t")]
    if maps and name.endswith("draft_id_to_target_id"):
        return maps
    # Zeros that a loader fills in are no stored tensor.
    return [key for key in keys if key != "<computed>" or len(keys) == 1]


def _sets(what: str, real: Sequence[str] | Mapping[str, Any], planned: Sequence[str]) -> Iterator[str]:
    if more := sorted(set(real) - set(planned)):
        yield f"{what} in the engine alone: {', '.join(more)}"
    if more := sorted(set(planned) - set(real)):
        yield f"{what} in the plan alone: {', '.join(more)}"


def _same(planned: Sequence[int], real: Sequence[int]) -> bool:
    """Some CPU kernels keep a matrix transposed."""
    return sorted(planned) == sorted(real)


def _is_t2d(name: str) -> bool:
    return name == "t2d" or name.endswith(".t2d")


def _short(text: str) -> str:
    return " ".join(text.split())[:160]
