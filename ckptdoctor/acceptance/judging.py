"""An accepted length to what it means: per-token acceptance, band, signs, and whether speculation pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckptdoctor.acceptance.counting import Counting
from ckptdoctor.acceptance.knowledge import Band, bands, signs
from ckptdoctor.acceptance.paying import Paying, paying
from ckptdoctor.acceptance.rates import conditional, per_token, per_token_without_end
from ckptdoctor.acceptance.readings import Reading

__all__ = ["Judgement", "Speeds", "judge"]

_NEVER = 0.002
_SEEN = 0.05
_OFTEN = 0.1
"""Places behind one that is accepted less often than this are printed too roughly to be compared."""
_GOOD_ANYWAY = 0.6
"""A per-token acceptance that is good however many draft tokens there are."""


@dataclass(frozen=True)
class Speeds:
    """Tokens per second with speculation and without, under the same load."""

    with_draft: float
    baseline: float


@dataclass(frozen=True)
class Judgement:
    """What one reading of the number means.

    `acceptance` is the range in which the per-token acceptance lies: one value for a chain, bounds for a tree, from the
    least possible one to None where the number of draft tokens is not known. `band` is None where the number says too
    little. `measures` are the values that `band` and `signs` were chosen by.
    """

    reading: Reading
    acceptance: tuple[float, float | None]
    band: Band | None
    signs: tuple[Band, ...]
    measures: dict[str, float]
    paying: Paying | None
    published: float | None

    @property
    def length(self) -> float:
        """The accepted length."""
        return self.reading.length

    @property
    def possible(self) -> bool:
        """Whether the number can be an accepted length at all."""
        return self.band is None or not self.band.id.startswith("impossible")


def judge(
    reading: Reading,
    *,
    positions: Sequence[float] = (),
    published: float | None = None,
    speeds: Speeds | None = None,
) -> Judgement:
    """Judge one reading; `positions` are the shares of steps in which the draft token at each place was accepted."""
    counting, length = reading.counting, reading.length
    acceptance = acceptance_of(length, counting)
    pays = None
    if speeds is not None and length >= 1:
        chain = not counting.tree and not counting.block
        given = (length, speeds.with_draft, speeds.baseline, counting.proposed)
        pays = paying(*given, chain=chain, positions=positions)
    measures = _measures(length, counting, positions, published)
    if pays is not None:
        measures["speedup"] = pays.speedup
    band = next((band for band in bands() if band.holds(measures)), None)
    further = tuple(sign for sign in signs() if sign.holds(measures)) if _is_length(band) else ()
    return Judgement(reading, acceptance, band, further, measures, pays, published)


def _is_length(band: Band | None) -> bool:
    return band is None or not band.id.startswith("impossible")


def acceptance_of(length: float, counting: Counting) -> tuple[float, float | None]:
    """The range of the per-token acceptance: of a tree the best candidate's, of which there are `topk` a step."""
    if counting.proposed is None:
        return per_token_without_end(length), None
    share = per_token(length, counting.proposed)
    # The best of k candidates is accepted at least as often as each of the others.
    return (share / (counting.topk or 1), share) if counting.tree else (share, share)


def _measures(
    length: float, counting: Counting, positions: Sequence[float], published: float | None
) -> dict[str, float]:
    found = {"length": length}
    if counting.proposed is not None and counting.most is not None:
        found |= {
            "most": counting.most,
            "over": length - counting.most,
            "short_of_most": counting.most - length,
            "per_token": per_token(length, counting.proposed),
        }
    elif (least := per_token_without_end(length)) >= _GOOD_ANYWAY:
        found["per_token"] = least
    if published is not None:
        found["below_published"] = published - length
        found["published_share"] = (length - 1) / (published - 1) if published > 1 else 1.0
    return found | _of_places(positions)


def _of_places(positions: Sequence[float]) -> dict[str, float]:
    if not positions:
        return {}
    found = {"first": positions[0]}
    reached = conditional(positions)
    if len(positions) > 1 and reached[1] is not None:
        found["second_given_first"] = reached[1]
    for place in range(1, len(positions)):
        if positions[place] <= _NEVER:
            if positions[place - 1] >= _SEEN:
                found["cut_after"] = place
                positions = positions[:place]
            break
    told = [share for share in conditional(positions, _OFTEN) if share is not None]
    if len(told) > 2 and positions[0] > 0:
        found["falls_to"] = told[-1] / told[0]
    return found
