"""A probe as JSON, an interface: `rules/schema/probe.schema.json` is written from these shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ckptdoctor.jsontext import dumps
from ckptdoctor.shapes import Count, Document, Shape, Share, encode, item, itself, limits

if TYPE_CHECKING:
    from ckptdoctor.probe.probing import ProbeResult

__all__ = ["Probe", "probe_text"]

Part: TypeAlias = Literal[
    "states", "token", "map", "fc", "norm_before_fc", "fc_norm", "residual_after_norm", "norm_output", "head_norm",
    "rope_base", "rope_scaling", "normed_twice",
]  # fmt: skip
AtLeastOne: TypeAlias = Annotated[float, limits(minimum=1)]


class Samples(Shape):
    form: Literal["specforge", "speculators", "target", "recorded"]
    texts: Count = item(at=lambda samples: len(samples.items))
    counted: Count
    columns: Count
    width: Count
    boundaries: list[int | None]
    remarks: list[str]


class Wiring(Shape):
    states: list[int] = item(
        "Columns of the samples' states in the order in which they are joined; -1 is the embedding output."
    )
    token: int
    map: Literal[0, 1, 2]
    fc: bool
    norm_before_fc: bool
    fc_norm: bool
    residual_after_norm: bool
    normed_twice: bool
    norm_output: bool
    head_norm: bool
    rope_base: float
    rope_scaling: bool


class Step(Shape):
    step: Annotated[int, limits(minimum=1)] = item(at="number")
    hits: Count
    of: Count
    accuracy: Share | None
    low: Share = item(at="interval.low")
    high: Share = item(at="interval.high")


class Length(Shape):
    value: AtLeastOne
    low: AtLeastOne = item(at="interval.low")
    high: AtLeastOne = item(at="interval.high")


class Stated(Shape):
    wiring: Wiring = item(at="stated")
    steps: list[Step]
    accepted_length: Length = item(at="length")


class Alternative(Shape):
    part: Part
    wiring: Wiring
    accepted_length: AtLeastOne = item(at="length")
    beaten_in: Share


class Found(Shape):
    wiring: Wiring = item(at="found.wiring")
    steps: list[Step] = item(at="best_steps")
    accepted_length: Length = item(at="found.length")
    changed: list[Part] = item(at="found.changed")
    boundaries: list[int] | None
    better_than_stated_in: Share = item(at="found.beats_stated_in")
    open: list[Part] = item(at="found.open_parts")
    tried: Count = item(at="found.tried")
    alternatives: list[Alternative] = item(at="found.alternatives")


class Chance(Shape):
    commonest_token: Share = item(at="share")
    hits: Count
    of: Count
    shuffled_accepted_length: AtLeastOne = item(at="shuffled")
    beaten_in: Share


class Entry(Shape):
    key: str
    value: Any


class Served(Shape):
    engine: str
    releases: str
    as_it_is: bool
    with_entries: bool
    ids: list[int] | None
    captured: list[int] | None
    why: str


class Flow(Shape):
    name: str
    shape: list[int]


class Probe(Document):
    """What `ckptdoctor probe --format json` prints. `found` is null without a search."""

    path: str
    target: str | None
    verdict: Literal["works", "otherwise", "chance", "weak", "measured", "too_few"]
    samples: Samples
    stated: Stated = item(at=itself)
    found: Found | None = item(at=lambda result: None if result.found is None else result)
    chance: Chance
    entries: list[Entry]
    serving: list[Served] = item(at="served")
    shapes: list[Flow] = item(at="flows")


def probe_text(result: ProbeResult) -> str:
    """The document that `probe --format json` prints."""
    return dumps(encode(Probe, result))
