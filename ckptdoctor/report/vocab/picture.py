"""The picture of a draft vocabulary: the map, where in the target's vocabulary it lies, and the coverage curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckptdoctor.facts.vocabulary.map_readings import READINGS
from ckptdoctor.report.vocab.svg import Drawing, Scale
from ckptdoctor.report.vocab.words import READING, count, percent
from ckptdoctor.text import show
from ckptdoctor.unknown import known_or

if TYPE_CHECKING:
    from ckptdoctor.facts.coverage import Coverage
    from ckptdoctor.vocab.page import IntArray, Page

__all__ = ["DOTS", "picture"]

DOTS = 4000
"""Draft ids that are drawn at most, evenly taken."""

_WIDTH, _LEFT, _RIGHT, _TOP, _TALL = 920, 92, 640, 96, 380
_STRIP, _LEGEND = 656, 696
_STRIP_ROWS = 96
_CURVE_TOP, _CURVE_TALL = 590, 280


def picture(page: Page) -> str:
    """The page as one SVG file: no script, no link, no font; all texts from files are only letters in it."""
    coverage = known_or(page.coverage, None)
    drawing = Drawing(_WIDTH, 556 if coverage is None else 960)
    drawing.text(24, 36, f"The draft vocabulary of {_end(page.path, 44)}", "head")
    drawing.text(24, 60, show(page.title, 90), "sub")
    size = known_or(page.vocab.size, 0)
    told = [f"Draft vocabulary of {page.path}."]
    if size and _draft_size(page):
        told += _map(drawing, page, size, _draft_size(page))
    else:
        drawing.text(_LEFT, _TOP + 40, "No map and no sizes, so there is nothing to draw.")
    if coverage is not None:
        told.append(_curve(drawing, page, coverage, size))
    return drawing.render("Draft vocabulary", " ".join(told))


def _end(path: str, most: int) -> str:
    """The end of a path, which says most, in at most `most` characters."""
    return path if len(path) <= most else f"…{path[1 - most :]}"


def _draft_size(page: Page) -> int:
    if page.vocab.map is not None:
        return len(page.vocab.map.targets)
    return known_or(page.vocab.draft_size, 0)


def _map(drawing: Drawing, page: Page, size: int, drafts: int) -> Iterator[str]:
    across = Scale(0, max(drafts - 1, 1), _LEFT, _RIGHT)
    up = Scale(0, max(size - 1, 1), _TOP + _TALL, _TOP)
    _axes(drawing, across, up, "draft id", "target id")
    readings = _readings(page, drafts)
    # The right one is drawn last, over the others.
    for reading, targets in sorted(readings.items(), key=lambda item: item[0] == page.reading):
        right = reading == page.reading or len(readings) == 1
        yield _dots(drawing, reading, targets, size, (across, up), right)
    y = float(_TOP + 14)
    drawing.text(_LEGEND, y, "Readings of d2t" if len(readings) > 1 else "The map", "quiet")
    for reading in readings:
        y += 26
        right = reading == page.reading or len(readings) == 1
        drawing.dots([(_LEGEND + 6, y - 5)], "right" if right else "other", 9, f"key-{reading}")
        words, _, rule = READING[reading].partition(" (")
        if len(readings) == 1:
            words, rule = ("token map", "target id = entry i") if page.token_map else ("no d2t", "target id = draft id")
        drawing.text(_LEGEND + 20, y, words, "name")
        y += 18
        drawing.text(_LEGEND + 20, y, rule.rstrip(")"), "quiet")
    if page.ids is not None:
        yield _strip(drawing, page.ids, size, up)
        drawing.text(_LEGEND, y + 50, "← how much of each range of", "quiet")
        drawing.text(_LEGEND, y + 68, "   target ids the draft has", "quiet")
    drawing.text(_LEGEND, _TOP + _TALL - 4, f"{count(drafts)} of {count(size)} ids ({percent(drafts / size)})", "name")


def _readings(page: Page, drafts: int) -> dict[int, IntArray]:
    import numpy as np

    from ckptdoctor.vocab.page import targets_of

    if page.token_map is not None:
        return {} if page.ids is None else {1: page.ids}
    if page.vocab.map is None:
        return {1: np.arange(drafts, dtype=np.int64)}
    found = {k: targets_of(page.vocab, k) for k in READINGS}
    return {k: targets for k, targets in found.items() if targets is not None}


def _dots(
    drawing: Drawing, reading: int, targets: IntArray, size: int, scales: tuple[Scale, Scale], right: bool
) -> str:
    across, up = scales
    every = max(1, math.ceil(len(targets) / DOTS))
    points = [(i, int(targets[i])) for i in range(0, len(targets), every)]
    inside = [(across(i), up(t)) for i, t in points if 0 <= t < size]
    drawing.dots(inside, "right" if right else "other", 4 if len(points) <= 400 else 2, f"reading-{reading}")
    lost = int(((targets < 0) | (targets >= size)).sum())
    shown = f"each {every}th of " if every > 1 else ""
    return f"{READING[reading]}: {shown}{count(len(targets))} entries, {count(lost)} outside the vocabulary."


def _strip(drawing: Drawing, ids: IntArray, size: int, up: Scale) -> str:
    """A column beside the map: each part is as dark as the share of its target ids that the draft has."""
    import numpy as np

    rows = min(_STRIP_ROWS, size)
    edges = np.linspace(0, size, rows + 1).astype(np.int64)
    held = np.histogram(np.unique(ids), bins=edges)[0]
    height = (up.start - up.end) / rows
    for row, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        y = up.start - (row + 1) * height
        drawing.box(_STRIP, y, 24, height, "none")
        if held[row]:
            drawing.box(_STRIP, y, 24, height, "bar", int(held[row]) / (high - low))
    drawing.box(_STRIP, up.end, 24, up.start - up.end, "frame")
    return f"The strip shows {rows} ranges of target ids."


def _curve(drawing: Drawing, page: Page, coverage: Coverage, size: int) -> str:
    best = sorted({*coverage.curve, (coverage.size, coverage.best_share)})
    low = min(share for _, share in (*best, (0, coverage.share)))
    floor = max(0.0, math.floor(low * 10 - 1e-9) / 10)
    across = Scale(best[0][0], max(size, best[-1][0]), _LEFT, _RIGHT, log=True)
    up = Scale(100 * floor, 100, _CURVE_TOP + _CURVE_TALL, _CURVE_TOP)
    source = page.counts.source if page.counts is not None else "the counts"
    drawing.text(24, _CURVE_TOP - 24, f"Share of {_end(source, 28)} that a draft vocabulary can propose", "head")
    _axes(drawing, across, up, "ids in the draft vocabulary (logarithmic)", "share of positions (%)")
    drawing.curve([(across(n), up(100 * share)) for n, share in best], "best", "best")
    x, y = across(coverage.size), up(100 * coverage.share)
    drawing.spot(x, up(100 * coverage.best_share), 4, "mark", "best-of-size")
    drawing.spot(x, y, 6, "now", "now")
    top = _CURVE_TOP + 14
    drawing.dots([(_LEGEND + 6, top - 5)], "right", 9, "key-now")
    drawing.text(_LEGEND + 20, top, "this map", "name")
    drawing.text(_LEGEND + 20, top + 18, f"{count(coverage.size)} ids: {percent(coverage.share)}", "quiet")
    drawing.line(_LEGEND - 2, top + 43, _LEGEND + 14, top + 43, "best")
    drawing.text(_LEGEND + 20, top + 48, "the best of each size", "name")
    drawing.text(_LEGEND + 20, top + 66, f"{count(coverage.size)} ids: {percent(coverage.best_share)}", "quiet")
    drawing.text(_LEGEND, top + 104, f"{count(coverage.total)} positions", "quiet")
    return (
        f"Of {count(coverage.total)} positions the map covers {percent(coverage.share)}, "
        f"the best of {count(coverage.size)} ids {percent(coverage.best_share)}."
    )


def _axes(drawing: Drawing, across: Scale, up: Scale, below: str, beside: str) -> None:
    for value in up.ticks():
        y = up(value)
        drawing.line(across.start, y, across.end, y, "grid")
        drawing.text(across.start - 10, y + 5, count(value), anchor="end")
    for value in _apart(across, across.ticks()):
        x = across(value)
        drawing.line(x, up.start, x, up.end, "grid")
        drawing.text(x, up.start + 22, count(value), anchor="middle")
    drawing.box(across.start, up.end, across.end - across.start, up.start - up.end, "frame")
    drawing.text((across.start + across.end) / 2, up.start + 48, below, "name", "middle")
    drawing.text(20, (up.start + up.end) / 2, beside, "name", "middle", -90)


def _apart(scale: Scale, ticks: Sequence[float]) -> Iterator[float]:
    """Those of the values whose numbers do not run into each other."""
    free = -math.inf
    for value in ticks:
        if scale(value) >= free:
            yield value
            free = scale(value) + 64
