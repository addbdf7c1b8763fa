"""A number to the accepted lengths that it can mean: a length is one, a rate is as many as engines define it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ckptdoctor.acceptance.counting import Counting
from ckptdoctor.acceptance.knowledge import Engine, RateKind, engines, rate_kinds_of
from ckptdoctor.acceptance.rates import length_of_rate
from ckptdoctor.errors import UsageError
from ckptdoctor.text import listing, show

__all__ = ["Reading", "readings_of_length", "readings_of_rate"]


@dataclass(frozen=True)
class Reading:
    """One accepted length that a number can mean; `said_by` are the engines and releases that mean it so.

    `because` is the definition in words. `counting` is the number of draft tokens under this reading.
    """

    length: float
    counting: Counting
    because: str
    said_by: tuple[str, ...] = ()


def readings_of_length(length: float, counting: Counting) -> list[Reading]:
    """The length itself, or what a number that is no length means in its place."""
    found = [Reading(length, counting, "the accepted length of a step")]
    most, proposed = counting.most, counting.proposed
    if length < 0.995 and proposed is not None and length <= proposed:
        alone = "the accepted draft tokens of a step, without the target's own"
        found.append(Reading(1 + length, counting, alone))
    if most is not None and proposed is not None and most + 0.005 < length <= 100:
        as_share = 1 + length / 100 * proposed
        found.append(Reading(as_share, counting, "a percentage (accepted / proposed draft tokens)"))
    return found


def readings_of_rate(rate: float, counting: Counting, release: str | None) -> list[Reading]:
    """The lengths that a rate in [0, 1] means; one where the engine and its release are known.

    Raises `UsageError` when no number of draft tokens is known, or when no length follows from the rate.
    """
    if counting.proposed is None:
        raise UsageError(
            "a rate alone says nothing: it takes the number of draft tokens (--draft-tokens N, or --launch LINE)"
        )
    asked = [counting.known] if counting.known is not None else list(engines().values())
    merged: dict[tuple[str, int, int], Reading] = {}
    for engine in asked:
        for kind in rate_kinds_of(engine.id, release):
            own = replace(counting, engine=engine.id)
            tokens = own.tokens if own.tokens is not None else (own.proposed or 0) + engine.verified
            length = length_of_rate(rate, kind.formula, tokens, own.proposed or 0)
            if length is None:
                continue
            key = (kind.id, own.proposed or 0, round(length * 1e6))
            before = merged.get(key)
            said = (*(before.said_by if before is not None else ()), _said(engine, kind))
            merged[key] = Reading(length, own, kind.says, said)
    if not merged:
        raise UsageError(_no_length(asked, release))
    return list(merged.values())


def _said(engine: Engine, kind: RateKind) -> str:
    span = kind.span(engine.id)
    return f"{engine.name} {span}" if span else engine.name


def _no_length(asked: Iterable[Engine], release: str | None) -> str:
    names = listing(engine.name for engine in asked)
    return (
        f"{names} {show(release or '')} counts matches behind a rejected token too, so no length follows from its "
        "rate; its log has the tokens that were emitted (--log FILE)"
    )
