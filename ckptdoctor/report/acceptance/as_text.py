"""The answer of `ckptdoctor acceptance` for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckptdoctor.acceptance.commands import filled
from ckptdoctor.acceptance.knowledge import WORDS
from ckptdoctor.report.acceptance.figures import amount, head, log_lines, meaning_lines, paying_lines, share
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.terminal.surface import DEFAULT_WIDTH

if TYPE_CHECKING:
    from ckptdoctor.acceptance.asking import Acceptance
    from ckptdoctor.acceptance.judging import Judgement
    from ckptdoctor.acceptance.knowledge import Band

__all__ = ["acceptance_lines", "band_text"]

_STYLE = {"error": "error", "warning": "warning", "note": "note", "good": "fix"}


def acceptance_lines(answer: Acceptance, width: int = DEFAULT_WIDTH) -> Iterator[Line]:
    """The number, what it says, whether speculation pays, the usual causes, and what to run next."""
    yield line(Segment(head(answer), "path"), ": ", _title(answer), hang=2)
    if answer.undecided:
        yield from _readings(answer)
    else:
        yield from _judged(answer, answer.judgements[0], width)
    yield from _wanted(answer)


def _title(answer: Acceptance) -> Segment:
    if answer.undecided:
        return Segment("several readings", "warning")
    band = answer.judgements[0].band
    return Segment(band.title if band is not None else WORDS["no_band"], _STYLE[band.level] if band else "quiet")


def _judged(answer: Acceptance, judgement: Judgement, width: int) -> Iterator[Line]:
    band = judgement.band
    if band is not None:
        yield line(band_text(band.says, judgement), indent=2, hang=2)
    for other in answer.judgements[1:]:
        title = other.band.title if other.band is not None else WORDS["no_band"]
        values = {"because": other.reading.because, "length": amount(other.length), "title": title}
        yield line(WORDS.say("other_reading", **values), indent=2, hang=2)
    if answer.log is not None:
        yield from log_lines(answer, answer.log, width)
    if judgement.possible:
        yield from meaning_lines(answer, judgement)
        yield from _published(judgement)
        yield from paying_lines(answer, judgement)
    for sign in judgement.signs:
        yield BLANK
        yield line(Segment(band_text(sign.title, judgement), _STYLE[sign.level]), indent=2, hang=2)
        yield line(band_text(sign.says, judgement), indent=4, hang=2)
        yield from _causes(sign)
    own = band if band is not None and _tells(band, judgement) else None
    if own is not None and own.causes:
        yield BLANK
        yield line(Segment("usual causes, the likeliest first", "label"), indent=2)
        yield from _causes(own)
    told = [*judgement.signs, *([own] if own is not None else [])]
    first = next((cause.rules[0] for found in told for cause in found.causes if cause.rules), None)
    if first is not None:
        yield BLANK
        yield line(Segment(WORDS.say("rules", rule=first), "quiet"), indent=2, hang=2)
    yield from _next(answer, judgement)


def _tells(band: Band, judgement: Judgement) -> bool:
    """Whether the causes of the band are of interest: not where it is as published, or where a sign says more."""
    if any(sign.level == "good" for sign in judgement.signs):
        return False
    return band.level in ("error", "warning") or not judgement.signs


def band_text(text: str, judgement: Judgement) -> str:
    """A sentence of a band with the values of the number in it."""
    measures, counting = judgement.measures, judgement.reading.counting
    published = judgement.published
    cut = measures.get("cut_after")
    values = {
        "length": amount(judgement.length),
        "proposed": counting.proposed,
        "most": counting.most,
        "published": None if published is None else amount(published),
        "below": amount(measures.get("below_published", 0.0)),
        "share": share(measures.get("published_share", 0.0)),
        "falls_percent": share(measures.get("falls_to", 0.0)),
        "cut_position": None if cut is None else int(cut) + 1,
        "cost": None if judgement.paying is None else amount(judgement.paying.cost),
    }
    return text.format_map(values)


def _causes(band: Band) -> Iterator[Line]:
    for number, cause in enumerate(band.causes, 1):
        yield line(f"{number}. {cause.says}", indent=4, hang=3)
        told: list[str | Segment] = []
        if cause.rules:
            told += [Segment("rules ", "quiet"), ", ".join(cause.rules)]
        if cause.seen_in:
            told += [Segment(f"{'  ' if told else ''}seen in {', '.join(cause.seen_in)}", "quiet")]
        if told:
            yield line(*told, indent=7, hang=2)


def _readings(answer: Acceptance) -> Iterator[Line]:
    yield line(f"{WORDS['several']}:", indent=2, hang=2)
    yield BLANK
    for judgement in answer.judgements:
        band = judgement.band
        yield line(_reading(judgement), indent=2, hang=2)
        reading = judgement.reading
        who = f"{', '.join(reading.said_by)}: " if reading.said_by else ""
        yield line(f"{who}{reading.because}", indent=8, hang=2)
        if band is not None:
            yield line(Segment(band_text(band.says, judgement), "quiet"), indent=8, hang=2)
    yield BLANK
    yield line(WORDS["decides"], indent=2, hang=2)


def _reading(judgement: Judgement) -> Segment:
    band = judgement.band
    title = band.title if band is not None else WORDS["no_band"]
    text = WORDS.say("reading", length=amount(judgement.length), title=title)
    return Segment(text, _STYLE[band.level] if band is not None else "quiet")


def _published(judgement: Judgement) -> Iterator[Line]:
    if judgement.published is None:
        return
    theirs, ours = judgement.published - 1, judgement.length - 1
    text = WORDS.say(
        "published", length=amount(judgement.length), published=amount(judgement.published), theirs=amount(theirs),
        ours=amount(ours), share=share(judgement.measures["published_share"]),
    )  # fmt: skip
    yield line(Segment("published   ", "label"), text, indent=4, hang=12)


def commands(answer: Acceptance, judgement: Judgement) -> list[str]:
    """The commands to run next, each once: those of the signs, which know more, before those of the band."""
    sources = [sign for sign in judgement.signs if sign.level in ("error", "warning")]
    if judgement.band is not None and _tells(judgement.band, judgement):
        sources.append(judgement.band)
    texts = [filled(text, answer.values or {}) for band in sources for text in band.next]
    known = {"--published": judgement.published, "--tokens-per-second": judgement.paying}
    done = [option for option, value in known.items() if value is not None]
    return [text for text in dict.fromkeys(texts) if not any(option in text for option in done)]


def _next(answer: Acceptance, judgement: Judgement) -> Iterator[Line]:
    texts = commands(answer, judgement)
    if not texts:
        return
    yield BLANK
    yield line(Segment("to run next", "label"), indent=2)
    for text in texts:
        yield line(Segment(text, "command"), indent=4, wrap=not text.startswith("ckptdoctor"), hang=2)


def _wanted(answer: Acceptance) -> Iterator[Line]:
    if answer.passed is None or answer.question.fail_under is None:
        return
    least = min(j.length for j in answer.judgements)
    name = "passed" if answer.passed else "failed" if len(answer.judgements) == 1 else "failed_reading"
    text = WORDS.say(name, length=amount(least), least=amount(answer.question.fail_under))
    yield BLANK
    yield line(Segment(text, "fix" if answer.passed else "error"), indent=2, hang=2)
