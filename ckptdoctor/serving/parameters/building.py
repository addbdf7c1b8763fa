"""Which parameters an engine builds for a draft: names, shapes, and what they hold before loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.serving.contract.contracts import Release
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.words import Reason
from ckptdoctor.unknown import Unknown

__all__ = ["MAX_LAYERS", "Built", "build", "held_before", "layers_beyond", "symbols_of"]

MAX_LAYERS = 128
"""Layers that are built at most: a config may claim any number, and no draft or target has as many."""

MAX_EXPERTS = 4096
"""Experts of one layer at most."""

MAX_INNER = 32
"""Parts inside of each layer or head that are built at most."""


@dataclass(frozen=True)
class Built:
    """One parameter as built. `parts` maps the part of a fused parameter (`q_proj`), or of stacked experts
    (`3.gate_proj`), to its shape, `role` marks those
    that the wiring asks about (`fc`, `head`, `embedding`, `map`, and `mask` for t2d as a parameter).
    `required` says that loading stops when nothing lands here, or when a part is missing; `whole` that
    nothing lands unless all parts come; `split` is the dimension that tensor parallelism divides."""

    name: str
    shape: tuple[int, ...] | None
    initial: str
    used: bool
    role: str | None
    parts: Mapping[str, tuple[int, ...] | None]
    required: bool = False
    whole: bool = False
    split: int | None = None


def symbols_of(settings: Settings, claims: Mapping[str, int], target: Mapping[str, Any]) -> dict[str, Any]:
    """The symbols of shapes and conditions: sizes that the config claims, and those of the target.

    `H`, `T`, `I`, `V`, `D`, `Q`, `KV`, `hd` and the sizes of latent attention as in `facts.sizes`;
    `TV` and `n` are the target's vocabulary and depth; `depth` is num_hidden_layers.
    """
    needs = Unknown("all sizes in config.json")
    symbols: dict[str, Any] = {
        s: claims.get(s, needs) for s in ("H", "T", "I", "V", "D", "Q", "KV", "hd", "QL", "KL", "KA", "MQ", "KB", "MV")
    }
    symbols |= {"TV": target.get("vocab_size"), "n": target.get("num_layers")}
    # What draft and target share is put in by serving/beside_target.py.
    symbols |= dict.fromkeys(("kv_page", "target_kv_page", "own_dtype", "target_dtype"), needs)
    depth = settings.get("num_hidden_layers")
    symbols["depth"] = depth if type(depth) is int and 0 <= depth < 2**20 else Unknown("num_hidden_layers")
    return symbols


def build(
    rows: Sequence[Mapping[str, Any]],
    layers: Mapping[str, Sequence[Mapping[str, Any]]],
    release: Release,
    symbols: Mapping[str, Any],
    settings: Settings,
) -> tuple[list[Built], list[Reason]]:
    """The parameters of a class in this release, in the order of its table, and what of them nobody can tell."""
    built: list[Built] = []
    opens: list[Reason] = []
    for row in rows:
        if not release.holds(row):
            continue
        for index, inner in _indices(row, symbols, settings):
            here = {**symbols, **({"i": index, "j": index} if index is not None else {})}
            name = str(row["name"]).replace("{k}", str(inner))
            if index is not None:
                name = name.replace("{i}", str(index)).replace("{j}", str(index))
            if "layer" not in row:
                built += _if_built(name, row, here, settings, opens)
            elif _is_built(name, row, here, settings, opens):
                here.setdefault("i", 0)
                for inner_row in layers[row["layer"]]:
                    if release.holds(inner_row):
                        built += _if_built(name + str(inner_row["name"]), inner_row, here, settings, opens)
    return built, opens


def layers_beyond(
    rows: Sequence[Mapping[str, Any]], release: Release, symbols: Mapping[str, Any], settings: Settings
) -> int | None:
    """How many layers or heads this release would build of a class, where that is more than are built here."""
    counts = (evaluate(row["each"], symbols, settings) for row in rows if "each" in row and release.holds(row))
    return next((count for count in counts if type(count) is int and count > MAX_LAYERS), None)


def _if_built(
    name: str, row: Mapping[str, Any], symbols: Mapping[str, Any], settings: Settings, opens: list[Reason]
) -> Iterator[Built]:
    if _is_built(name, row, symbols, settings, opens):
        yield _one(name, row, symbols, settings)


def _is_built(
    name: str, row: Mapping[str, Any], symbols: Mapping[str, Any], settings: Settings, opens: list[Reason]
) -> bool:
    """Whether the condition of a row holds; one that nobody can tell is noted in `opens`."""
    if "if" not in row:
        return True
    value = evaluate(row["if"], symbols, settings)
    if isinstance(value, Unknown):
        opens.append(Reason("open", "parameter_condition", {"name": name, "needs": value.needs}))
        return False
    return bool(value)


def _one(name: str, row: Mapping[str, Any], symbols: Mapping[str, Any], settings: Settings) -> Built:
    parts = {part: _shape(dims, symbols, settings) for part, dims in row.get("parts", {}).items()}
    if "experts" in row:
        count = _count(row["experts"], MAX_EXPERTS, symbols, settings)
        parts = {f"{expert}.{part}": shape for expert in range(count) for part, shape in parts.items()}
    shape = _shape(row["shape"], symbols, settings) if "shape" in row else _stacked(list(parts.values()))
    used = not ("unused_if" in row and _applies(row["unused_if"], symbols, settings))
    required = row.get("missing") == "refuse"
    whole, split = row.get("parts_come") == "together", row.get("split")
    return Built(name, shape, str(row["initial"]), used, row.get("role"), parts, required, whole, split)


def _stacked(shapes: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    whole = [s for s in shapes if s is not None]
    if len(whole) != len(shapes) or not whole:
        return None
    return (sum(s[0] for s in whole), *whole[0][1:])


def _shape(dims: Sequence[Any], symbols: Mapping[str, Any], settings: Settings) -> tuple[int, ...] | None:
    values = [evaluate(dim, symbols, settings) for dim in dims]
    whole = [v for v in values if type(v) is int]
    return tuple(whole) if len(whole) == len(values) else None


def _applies(condition: str | None, symbols: Mapping[str, Any], settings: Settings) -> bool:
    if condition is None:
        return True
    value = evaluate(condition, symbols, settings)
    return not isinstance(value, Unknown) and bool(value)


def _indices(
    row: Mapping[str, Any], symbols: Mapping[str, Any], settings: Settings
) -> list[tuple[int | None, int | None]]:
    """The numbers `{i}` of a row (`each`) with the numbers `{k}` inside of each (`within`)."""
    if "each" not in row:
        return [(None, None)]
    count = _count(row["each"], MAX_LAYERS, symbols, settings)
    if "within" not in row:
        return [(i, None) for i in range(count)]
    inner = _count(row["within"], MAX_INNER, symbols, settings)
    return [(i, k) for i in range(count) for k in range(inner)]


def _count(expression: str | int, limit: int, symbols: Mapping[str, Any], settings: Settings) -> int:
    count = evaluate(expression, symbols, settings)
    return min(count, limit) if type(count) is int else 0


def held_before(built: Sequence[Built], otherwise: Mapping[str, str]) -> list[Built]:
    """The parameters with the initial values that this release gives them otherwise than the table says."""
    ends = tuple(otherwise.items())
    found = ((b, next((v for end, v in ends if b.name.endswith(end)), b.initial)) for b in built)
    return [b if initial == b.initial else replace(b, initial=initial) for b, initial in found]
