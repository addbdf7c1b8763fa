"""One line of a log to figures: the fields of its kind, and the accepted length that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckptdoctor.acceptance.knowledge import LineKind

__all__ = ["POSITIONS_LIMIT", "Figures", "fields_of", "figures_of"]

POSITIONS_LIMIT = 256
_CUT = 4096
_ROUNDING = 0.0051
"""Lengths are printed with two decimals."""


@dataclass(frozen=True)
class Figures:
    """What one line says.

    `length` is the accepted length with the target's own token, None where it takes the number of draft tokens to know
    it. `drafts` is the number of steps that the line stands for, `running` the requests at that time. `positions` are
    shares of all steps in which the draft token at each place was accepted. `rate` is as it is printed. `bonus_missing`
    tells that the printed length left out the target's own token, which `length` has.
    """

    length: float | None = None
    drafts: float | None = None
    accepted: float | None = None
    drafted: float | None = None
    positions: tuple[float, ...] = ()
    rate: float | None = None
    running: float | None = None
    throughput: float | None = None
    printed: float | None = None
    bonus_missing: bool = False


def fields_of(kind: LineKind, line: str) -> dict[str, str]:
    """The groups of the fields that fit, by name; empty when the line has none of them."""
    start = min((line.find(text) for text in kind.holds if text in line), default=-1)
    if start < 0:
        return {}
    # Long lines are cut around the text that gives them away, so that no pattern sees more than it needs.
    text = line[max(0, start - _CUT) : start + _CUT]
    found: dict[str, str] = {}
    for pattern in kind.fields:
        match = pattern.search(text)
        if match is not None:
            found |= {name.rstrip("2"): value for name, value in match.groupdict().items() if value is not None}
    return found


def figures_of(fields: Mapping[str, str]) -> Figures | None:
    """The figures of a line, or None when nothing can be counted in it."""
    number = {name: float(text) for name, text in fields.items() if _is_number(text)}
    accepted, drafted, drafts = (number.get(name) for name in ("accepted", "drafted", "drafts"))
    positions = tuple(float(p) for p in fields.get("positions", "").split(",") if p.strip())[:POSITIONS_LIMIT]
    printed = number.get("length")
    if drafts is None and "emitted" in number and drafted and number.get("proposed"):
        drafts = drafted / number["proposed"]
        printed = number["emitted"] / drafts
        accepted = number["emitted"] - drafts
    if drafts is None and accepted is not None:
        drafts = _drafts(accepted, drafted, positions, printed)
    counted = 1 + accepted / drafts if accepted is not None and drafts else None
    if counted is None and positions:
        counted = 1 + sum(positions)
    length = counted if counted is not None else printed
    if length is None and not (accepted is not None and drafted):
        return None
    missing = counted is not None and printed is not None and abs(printed - (counted - 1)) < 2 * _ROUNDING
    return Figures(
        length, drafts, accepted, drafted, positions, number.get("rate"), number.get("running"),
        number.get("throughput"), printed, missing and accepted != 0,
    )  # fmt: skip


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()


def _drafts(
    accepted: float, drafted: float | None, positions: tuple[float, ...], printed: float | None
) -> float | None:
    """The steps behind a line that prints only tokens: from the places, where they agree with the length."""
    if drafted and positions:
        even = drafted / len(positions)
        if printed is None or any(abs(accepted / even + bonus - printed) < _ROUNDING for bonus in (0, 1)):
            return even
    # Drafts of different lengths: the shares of the places add up to the accepted tokens of a step.
    each = sum(positions)
    if each > _ROUNDING:
        return accepted / each
    if printed is not None and printed - 1 > _ROUNDING:
        return accepted / (printed - 1)
    return None
