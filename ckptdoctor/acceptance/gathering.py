"""Figures that stand on several lines: the counters of Prometheus, and the summaries of benchmarks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckptdoctor.acceptance.line_figures import POSITIONS_LIMIT, Figures, figures_of

__all__ = ["Block", "Counters"]

_SERIES = 4096
_POSITION = re.compile(r'position="(\d{1,4})"')


class Counters:
    """The newest value of each series of a Prometheus text, summed over engines and models."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], float] = {}

    def add(self, fields: Mapping[str, str]) -> None:
        """One line: `counter`, `labels` and `value`."""
        key = (fields["counter"], fields["labels"])
        if key in self._values or len(self._values) < _SERIES:
            self._values[key] = float(fields["value"])

    def figures(self) -> Figures | None:
        """What the counters say since the server started."""
        sums: dict[str, float] = {}
        places: dict[int, float] = {}
        for (counter, labels), value in self._values.items():
            match = _POSITION.search(labels)
            if counter == "accepted_tokens_per_pos" and match is not None:
                places[int(match[1])] = places.get(int(match[1]), 0.0) + value
            else:
                sums[counter] = sums.get(counter, 0.0) + value
        drafts, accepted = sums.get("drafts"), sums.get("accepted_tokens")
        if not drafts or accepted is None:
            return None
        count = min(max(places, default=-1) + 1, POSITIONS_LIMIT)
        positions = tuple(places.get(i, 0.0) / drafts for i in range(count))
        return Figures(1 + accepted / drafts, drafts, accepted, sums.get("draft_tokens"), positions)


class Block:
    """A summary with one figure a line; a figure that comes again begins the next summary."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}
        self._places: dict[int, float] = {}

    def add(self, fields: Mapping[str, str]) -> Figures | None:
        """One line; gives the summary before it when this line begins a new one."""
        done = None
        if self._repeats(fields):
            done = self.figures()
            self._fields, self._places = {}, {}
        if "position" in fields:
            share = float(fields["value"]) if "value" in fields else float(fields["value_percent"]) / 100
            if len(self._places) < POSITIONS_LIMIT:
                self._places[int(fields["position"])] = share
        else:
            self._fields |= fields
        return done

    def _repeats(self, fields: Mapping[str, str]) -> bool:
        if "position" in fields:
            return int(fields["position"]) in self._places
        return any(name in self._fields for name in fields)

    def figures(self) -> Figures | None:
        """The summary as far as it was read."""
        if "length" not in self._fields and "drafts" not in self._fields:
            return None
        if self._places and set(self._places) == set(range(len(self._places))):
            shares = ",".join(str(self._places[i]) for i in range(len(self._places)))
            return figures_of({**self._fields, "positions": shares})
        return figures_of(self._fields)
