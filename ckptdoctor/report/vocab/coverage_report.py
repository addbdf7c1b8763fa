"""The coverage of real text by a draft vocabulary, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.vocab.words import count, percent
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

if TYPE_CHECKING:
    from ckptdoctor.facts.coverage import Coverage, Part
    from ckptdoctor.vocab.page import Page

__all__ = ["coverage_lines", "curve_points"]

_COSTLIEST = 12
_CURVE = 9


def coverage_lines(page: Page) -> Iterator[Line]:
    """What of the counted text the draft can propose; nothing when that is not known."""
    coverage, counts = page.coverage, page.counts
    if isinstance(coverage, Unknown) or counts is None:
        return
    yield BLANK
    title = f"coverage of {show(counts.source)} ({counts.kind}, {count(coverage.total)} positions)"
    yield line(Segment(title, "label"), indent=2, hang=2)
    yield line(
        f"{percent(coverage.share)} can be proposed; the best {count(coverage.size)} ids would reach "
        f"{percent(coverage.best_share)}",
        indent=4,
        hang=2,
    )
    yield from _parts(coverage)
    yield from _missing(coverage)
    yield from _costliest(coverage)
    yield from _curve(coverage)
    yield from _estimate(coverage)


def _parts(coverage: Coverage) -> Iterator[Line]:
    groups = [p for p in (coverage.specials, coverage.digits, coverage.bytes) if not isinstance(p, Unknown)]
    named = {part.name: part for part in (*coverage.scripts, *groups)}
    parts: list[Part] = [part for part in named.values() if part.count]
    wide = max((len(show(part.name, 40)) for part in parts), default=0)
    digits = max((len(count(part.count)) for part in parts), default=0)
    for part in parts:
        share = part.covered / part.count
        text = f"{show(part.name, 40).ljust(wide)}  {percent(share):>11} of {count(part.count).rjust(digits)}"
        yield line(text, indent=6)


def _missing(coverage: Coverage) -> Iterator[Line]:
    """Tokens of the groups that a draft should have, whether they occur or not."""
    for part in (coverage.specials, coverage.digits, coverage.bytes):
        if not isinstance(part, Unknown) and part.missing:
            yield line(
                f"{part.missing} of {part.tokens} {show(part.name, 40)} are outside: ",
                Segment(listing(part.missing_ids, 8), "quiet"),
                indent=4,
                hang=2,
            )


def _costliest(coverage: Coverage) -> Iterator[Line]:
    lost = [token for token in coverage.costliest if token.count][:_COSTLIEST]
    if not lost:
        return
    yield BLANK
    yield line(Segment("tokens outside that cost most", "label"), indent=4)
    wide = max(len(str(token.id)) for token in lost)
    for token in lost:
        text = f"{str(token.id).rjust(wide)}  {100 * token.share:8.3g} %  {count(token.count):>9}  "
        yield line(text, Segment(_quoted(token.text), "quiet"), indent=6)


def _quoted(text: str) -> str:
    """A token's text in quotes, so that spaces are seen."""
    return f"'{show(text, 40)}'" if text else ""


def curve_points(curve: Sequence[tuple[int, float]], most: int = _CURVE) -> list[tuple[int, float]]:
    """At most `most` points of the curve, evenly taken, with the first and the last."""
    if len(curve) <= most:
        return list(curve)
    places = sorted({round(n * (len(curve) - 1) / (most - 1)) for n in range(most)})
    return [curve[place] for place in places]


def _curve(coverage: Coverage) -> Iterator[Line]:
    points = curve_points(coverage.curve)
    if not points:
        return
    yield BLANK
    yield line(Segment("what the best map of each size would cover", "label"), indent=4)
    wide = max(len(count(size)) for size, _ in points)
    for size, share in points:
        here = "  as large as this map" if size == coverage.size else ""
        yield line(f"{count(size).rjust(wide)} ids  {percent(share):>11}", Segment(here, "quiet"), indent=6)


def _estimate(coverage: Coverage) -> Iterator[Line]:
    yield BLANK
    yield line(Segment("accepted length, as estimated", "label"), indent=4)
    rows = (
        (coverage.accepted_with_map, "with this map"),
        (coverage.accepted_with_best, f"with the best {count(coverage.size)} ids"),
        (coverage.accepted_with_all, "with all ids"),
    )
    for length, what in rows:
        yield line(f"{length:6.3f}  {what}", indent=6)
    assumed = (
        f"assumed: {coverage.assumed_draft_tokens} draft tokens in a chain, each accepted with a chance of "
        f"{coverage.assumed_acceptance:g} when it can be proposed, and tokens outside spread evenly over the text"
    )
    yield line(Segment(assumed, "quiet"), indent=6, hang=2)
