"""`Turning`: the rotary embedding of a draft as its config describes it, in either spelling. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.rope.scaling import rotary_number
from ckptdoctor.text import listing, show

__all__ = ["DEFAULT_BASE", "Turning", "mscale", "turning_of"]

DEFAULT_BASE = 10000.0
"""rope_theta of a config that gives none: transformers 5.24 (configuration_utils.py, default_theta)."""

_DEFAULT_LIMIT = 2048
_KINDS = frozenset({"default", "linear", "dynamic", "llama3", "yarn", "longrope"})
# Positions of text alone are the same on the axes of mrope; DeepSeek's own name for yarn; the first name of longrope.
_SAME_AS = {"mrope": "default", "deepseek_yarn": "yarn", "su": "longrope"}
_MOST_FACTORS, _LEAST = 4096, 1e-9


@dataclass(frozen=True)
class Turning:
    """How queries and keys are turned by their position.

    `base` is rope_theta, `dims` how many dimensions of a head are turned; the others are left alone. `kind` is one of
    `default`, `linear`, `dynamic`, `llama3`, `yarn` and `longrope` (mrope is `default`, as its three axes are one for
    text), `numbers` the numbers that it needs. `limit` is max_position_embeddings. Cosine and sine are multiplied by
    `attention`, and the scores of the attention (MLA with yarn alone) by `scores`. `interleaved` says that neighbours
    are turned together, not the two halves. `short` and `long` are the factors of longrope. `problem` says why the
    scaling cannot be computed, None where it can.
    """

    base: float = DEFAULT_BASE
    dims: int = 0
    kind: str = "default"
    numbers: Mapping[str, float] | None = None
    limit: int = _DEFAULT_LIMIT
    attention: float = 1.0
    scores: float = 1.0
    interleaved: bool = False
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()
    problem: str | None = None

    def number(self, name: str) -> float:
        """The number `name` of the scaling."""
        return (self.numbers or {})[name]

    @property
    def scaled(self) -> bool:
        """Whether there is a scaling."""
        return self.kind != "default"


def turning_of(facts: Facts, head_dim: int, customs: Mapping[str, Any], *, mla: bool) -> Turning:
    """The rotary embedding of the draft, as its writer's class computes it.

    `head_dim` is the size of a head, of MLA that of its turned part. `customs` is what the writer does in its own way
    (rules/writers, conventions.forward). Of a `rope_parameters` with an object for each kind of layer that of the
    sliding layers is taken for all layers, as speculators 0.9.0 does (models/utils.py, flatten_rope_parameters). What
    transformers 5.24 fills in is filled in (modeling_rope_utils.py).
    """
    config, positions = facts.config, facts.draft.positions
    place = positions.place
    new = _one_of(_object(facts, place + "rope_parameters"))
    said = _object(facts, place + "rope_scaling") or new
    base = _number(new.get("rope_theta")) or _number(positions.old_base) or DEFAULT_BASE
    limit = positions.limit or positions.assumed or _DEFAULT_LIMIT
    beside = config.at(place + "partial_rotary_factor")
    part = _number(new.get("partial_rotary_factor", said.get("partial_rotary_factor")))
    if part is None and beside is not None:
        part = _number(beside.value)
    if part is None or part > 1 or customs.get("partial_rotary") == "unread" or mla:
        part = 1.0
    interleave = config.at("rope_interleave")
    plain = Turning(
        base=base,
        dims=int(head_dim * part) // 2 * 2,
        limit=limit,
        interleaved=mla and not (interleave is not None and interleave.value is False),
    )
    named = next((said[key] for key in ("rope_type", "type") if isinstance(said.get(key), str)), "default")
    kind = _SAME_AS.get(named, named)
    if kind == "default":
        return plain
    if kind not in _KINDS:
        return replace(plain, problem=f"rotary scaling of the kind {show(named)} is not known here")
    original = config.at(place + "original_max_position_embeddings")
    given = {**({"original_max_position_embeddings": original.value} if original is not None else {}), **said}
    return _scaled(plain, kind, given, customs, mla=mla)


def _scaled(plain: Turning, kind: str, said: Mapping[str, Any], customs: Mapping[str, Any], *, mla: bool) -> Turning:
    values = {key: number for key, value in said.items() if (number := _number(value)) is not None}
    numbers = dict(values)
    numbers.setdefault("original_max_position_embeddings", float(plain.limit))
    if kind in ("yarn", "longrope"):
        numbers.setdefault("factor", plain.limit / numbers["original_max_position_embeddings"])
    needs = {"llama3": ["factor", "low_freq_factor", "high_freq_factor"]}.get(kind, ["factor"])
    lacks = [name for name in needs if name not in numbers]
    if lacks:
        return replace(plain, problem=f"the rotary scaling {kind} of the config lacks {listing(lacks)}")
    attention = scores = 1.0
    short, long = _factors(said.get("short_factor")), _factors(said.get("long_factor"))
    if kind == "yarn":
        numbers.setdefault("beta_fast", 32.0)
        numbers.setdefault("beta_slow", 1.0)
        numbers["truncate"] = float(said.get("truncate") is not False)
        ratio = mla or customs.get("yarn_factor") == "ratio"
        attention, scores = _yarn_factors(numbers, values, ratio=ratio, mla=mla)
    elif kind == "longrope":
        if not len(short) == len(long) == plain.dims // 2:
            return replace(plain, problem="the factors of the rotary scaling longrope are not those of this head")
        attention = values.get("attention_factor") or _longrope_factor(numbers)
    elif kind == "dynamic":
        numbers["rows"] = float(customs.get("dynamic_rows", 0)) + plain.limit
    return replace(plain, kind=kind, numbers=numbers, attention=attention, scores=scores, short=short, long=long)


def mscale(factor: float, weight: float = 1.0) -> float:
    """yarn's factor for the attention: 1 + weight · ln(factor) / 10, and 1 where nothing is stretched."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _yarn_factors(
    numbers: Mapping[str, float], given: Mapping[str, float], *, ratio: bool, mla: bool
) -> tuple[float, float]:
    """What cosine and sine, and what the scores of MLA are multiplied by.

    transformers 5.24 and vLLM 0.33.0: attention_factor, else mscale(mscale) / mscale(mscale_all_dim) where both are
    given, else mscale(1). With `ratio` (SpecForge 0.2.0, DeepSeek's classes) always the ratio, with 1 and 0 for what is
    not given. MLA multiplies its scores by the square of mscale(mscale_all_dim) (DeepSeek-V3, modeling_deepseek.py).
    """
    factor = numbers["factor"]
    one, other = given.get("mscale", 0.0), given.get("mscale_all_dim", 0.0)
    if ratio:
        attention = mscale(factor, given.get("mscale", 1.0)) / mscale(factor, other)
    elif "attention_factor" in given:
        attention = given["attention_factor"]
    elif one and other:
        attention = mscale(factor, one) / mscale(factor, other)
    else:
        attention = mscale(factor)
    return attention, mscale(factor, other) ** 2 if mla and other else 1.0


def _longrope_factor(numbers: Mapping[str, float]) -> float:
    factor, original = numbers["factor"], numbers["original_max_position_embeddings"]
    return 1.0 if factor <= 1 or original <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))


def _factors(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) > _MOST_FACTORS:
        return ()
    numbers = [_number(v) for v in value]
    return () if None in numbers else tuple(n for n in numbers if n is not None)


def _number(value: Any) -> float | None:
    """A number that a rotary embedding can have, not so small that it is none."""
    number = rotary_number(value)
    return number if number is not None and number >= _LEAST else None


def _object(facts: Facts, key: str) -> Mapping[str, Any]:
    field = facts.config.at(key)
    return field.value if field is not None and isinstance(field.value, dict) else {}


def _one_of(new: Mapping[str, Any]) -> Mapping[str, Any]:
    """`rope_parameters` of all layers; of an object for each kind of layer, that of the sliding ones before others."""
    each = {key: value for key, value in new.items() if isinstance(value, dict)}
    if not each:
        return new
    return next(
        (each[key] for key in ("sliding_attention", "full_attention") if key in each), next(iter(each.values()))
    )
