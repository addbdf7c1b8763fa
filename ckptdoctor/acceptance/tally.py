"""Figures of many lines added up, in memory that does not grow with the log."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ckptdoctor.acceptance.knowledge import LineKind
from ckptdoctor.acceptance.line_figures import Figures
from ckptdoctor.acceptance.rate_meaning import RatePairs

__all__ = ["Tally", "Total"]

_SAMPLE = 1024
_NAMES = 64
_FEWEST_TO_DROP = 5
"""With fewer lines the first is kept: it is most of what is known."""


@dataclass(frozen=True)
class Total:
    """What the lines of one kind come to.

    `length` is the mean over steps, `low` and `high` the least and the greatest of a line. `weighed_by` is `steps`
    (their number is printed or follows from what is), `requests` (running at the time of each line) or `lines`.
    `drafts` is the number of steps and `drafted` that of draft tokens, where they are known. `throughput` is the median
    of the lines, in tokens per second of all running requests together.
    """

    length: float
    lines: int
    low: float
    high: float
    weighed_by: str
    drafts: float | None = None
    drafted: float | None = None
    positions: tuple[float, ...] = ()
    throughput: float | None = None
    running: tuple[int, int] | None = None
    pairs: RatePairs = field(default_factory=RatePairs)
    bonus_missing: bool = False
    dropped_first: bool = False

    @property
    def proposed(self) -> int | None:
        """Draft tokens of a step: the places that are printed, else tokens over steps where that is a whole number."""
        if self.positions:
            return len(self.positions)
        each = self.drafted / self.drafts if self.drafted and self.drafts else 0.0
        return round(each) if each >= 1 and abs(each - round(each)) < 1e-3 else None


class _Sample:
    """An even sample of a stream: every n-th value, with n doubled whenever there are too many."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._every, self._seen = 1, 0

    def add(self, value: float) -> None:
        if self._seen % self._every == 0:
            self._values.append(value)
            if len(self._values) >= _SAMPLE:
                self._values, self._every = self._values[::2], self._every * 2
        self._seen += 1

    def median(self) -> float | None:
        values = sorted(self._values)
        return values[len(values) // 2] if values else None


class _Sums:
    def __init__(self) -> None:
        self.lines = 0
        self.low, self.high = math.inf, -math.inf
        self.weight = self.length = 0.0
        self.drafts = self.accepted = self.drafted = 0.0
        self.have_drafts = True
        self.positions: list[float] = []
        self.positions_weight = 0.0
        self.running: tuple[int, int] | None = None
        self.throughput = _Sample()
        self.pairs = RatePairs()
        self.bonus_missing = False

    def add(self, figures: Figures, weight: float) -> None:
        self.lines += 1
        self.accepted += figures.accepted or 0
        self.drafted += figures.drafted or 0
        self.drafts += figures.drafts or 0
        # A line in which nothing was drafted says nothing, and does no harm.
        self.have_drafts = self.have_drafts and (figures.drafts is not None or figures.drafted == 0)
        if figures.length is not None:
            self.low, self.high = min(self.low, figures.length), max(self.high, figures.length)
            self.weight += weight
            self.length += weight * figures.length
            for i, share in enumerate(figures.positions):
                if i == len(self.positions):
                    self.positions.append(0.0)
                self.positions[i] += weight * share
            self.positions_weight += weight if figures.positions else 0
        if figures.running is not None:
            low, high = self.running or (int(figures.running), int(figures.running))
            self.running = (min(low, int(figures.running)), max(high, int(figures.running)))
        if figures.throughput:
            self.throughput.add(figures.throughput)
        if figures.rate is not None and figures.printed is not None:
            self.pairs = self.pairs.with_pair(figures.printed, figures.rate)
        self.bonus_missing = self.bonus_missing or figures.bonus_missing


class Tally:
    """The lines of one kind since the server was ready."""

    def __init__(self, kind: LineKind) -> None:
        self.kind = kind
        self._sums = _Sums()
        self._first: Figures | None = None
        self._last: dict[str, Figures] = {}

    @property
    def lines(self) -> int:
        """How many lines were counted."""
        return self._sums.lines + (self._first is not None) + len(self._last)

    def add(self, figures: Figures, name: str = "") -> None:
        """Count one line; of a kind that prints totals since the start, the last one of each name counts."""
        if self.kind.kind in ("running", "counter"):
            if name in self._last or len(self._last) < _NAMES:
                self._last[name] = figures
        elif self.kind.first_is_warm_up and self._first is None and not self._sums.lines:
            self._first = figures
        else:
            self._sums.add(figures, self._weight(figures))

    def _weight(self, figures: Figures) -> float:
        if figures.drafts is not None:
            return figures.drafts
        if self.kind.by_running:
            return figures.running or 1.0
        return 0.0 if figures.drafted == 0 else 1.0

    def total(self, proposed: int | None) -> Total | None:
        """What the lines come to; `proposed` helps where lines count tokens alone. None when there is nothing."""
        sums = self._sums
        dropped = self._first is not None and sums.lines >= _FEWEST_TO_DROP
        if self._first is not None and not dropped:
            sums.add(self._first, self._weight(self._first))
            self._first = None
        for figures in self._last.values():
            sums.add(figures, self._weight(figures))
        self._last = {}
        length = self._length(proposed)
        if length is None or not math.isfinite(length):
            return None
        weighed = "steps" if sums.have_drafts and sums.drafts else "requests" if self.kind.by_running else "lines"
        shares = tuple(p / sums.positions_weight for p in sums.positions) if sums.positions_weight else ()
        known = sums.lines and math.isfinite(sums.low)
        return Total(
            length, sums.lines, sums.low if known else length, sums.high if known else length, weighed,
            sums.drafts if weighed == "steps" else None, sums.drafted or None, shares, sums.throughput.median(),
            sums.running, sums.pairs, sums.bonus_missing, dropped,
        )  # fmt: skip

    def _length(self, proposed: int | None) -> float | None:
        sums = self._sums
        if sums.have_drafts and sums.drafts:
            return 1 + sums.accepted / sums.drafts if sums.accepted else sums.length / (sums.weight or 1) or 1.0
        if sums.weight:
            return sums.length / sums.weight
        if sums.drafted and proposed:
            return 1 + sums.accepted * proposed / sums.drafted
        return None
