"""The figures of an answer of `ckptdoctor acceptance`: the first line, the log, the places, rates and costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckptdoctor.acceptance.knowledge import WORDS, engines, rate_kinds, rate_kinds_of
from ckptdoctor.acceptance.rates import conditional
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.text import plural, show

if TYPE_CHECKING:
    from ckptdoctor.acceptance.asking import Acceptance
    from ckptdoctor.acceptance.judging import Judgement
    from ckptdoctor.acceptance.log_reader import LogFigures
    from ckptdoctor.acceptance.paying import Paying

__all__ = ["amount", "head", "log_lines", "meaning_lines", "paying_lines", "place_lines", "share"]

_LABEL = 12
_WIDEST_BAR = 40
_PLACES_SHOWN = 32


def amount(value: float) -> str:
    """A length or a factor: `2.31`; 0.996 is `0.996`, since it is no 1."""
    text = f"{value:.2f}"
    return f"{value:.3f}" if text in ("1.00", "0.00") and abs(value - float(text)) > 5e-4 else text


def share(value: float) -> str:
    """A share in [0, 1]: `58.9 %`. What is something is never `0.0 %`."""
    if 0 < value < 0.0005:
        return "under 0.1 %"
    return f"{100 * value:.1f} %"


def head(answer: Acceptance) -> str:
    """The number, in the words of the one who gave it."""
    judgement = answer.judgements[0]
    counting, length = judgement.reading.counting, amount(judgement.length)
    if answer.given == "rate" and answer.undecided:
        tokens = answer.counting.tokens if answer.counting.tokens is not None else answer.counting.proposed
        return WORDS.say("head_rate", rate=f"{answer.question.rate or 0:.2f}", tokens=tokens)
    if counting.proposed is None:
        return WORDS.say("head_open", length=length)
    name = "head_tree" if counting.tree else "head_tokens"
    return WORDS.say(name, length=length, proposed=counting.proposed)


def _row(label: str, *parts: Segment | str) -> Line:
    return line(Segment(label.ljust(_LABEL), "label"), *parts, indent=4, hang=_LABEL)


def log_lines(answer: Acceptance, log: LogFigures, width: int) -> Iterator[Line]:
    """What the log holds, what was left out, and the acceptance at each place."""
    total = log.total
    yield BLANK
    yield line(Segment(log.name, "label"), indent=2, hang=2)
    parts = [WORDS.say("log_lines", what=log.what, lines=plural(total.lines, "line"))]
    weighed = {"steps": "log_steps", "requests": "log_requests", "lines": "log_even"}[total.weighed_by]
    if total.lines > 1 and amount(total.low) != amount(total.high):
        parts.append(WORDS.say("log_spread", low=amount(total.low), high=amount(total.high)))
        parts.append(WORDS.say(weighed, steps=f"{round(total.drafts or 0):,}"))
    yield line(", ".join(parts), indent=4, hang=2)
    for text in _remarks(answer, log):
        yield line(Segment(text, "quiet"), indent=4, hang=2)
    if total.positions:
        yield BLANK
        yield from place_lines(total.positions, width)


def _remarks(answer: Acceptance, log: LogFigures) -> Iterator[str]:
    total, tokens = log.total, answer.counting.tokens
    if log.warm_up:
        are = "is" if log.warm_up == 1 else "are"
        yield WORDS.say("log_warm_up", lines=plural(log.warm_up, "line"), are=are) + "."
    if total.dropped_first:
        yield WORDS["log_first"]
    if log.starts:
        yield WORDS.say("log_starts", starts=plural(log.starts + 1, "start"))
    if log.cut:
        were = "was" if log.cut == 1 else "were"
        yield WORDS.say("log_cut", lines=plural(log.cut, "line"), limit=f"{64 * 1024:,}", were=were)
    if total.bonus_missing:
        yield WORDS["log_bonus"]
    if answer.rate_formula == "verified" and tokens:
        yield WORDS.say("log_rate_verified", tokens=tokens, none=f"{1 / tokens:.2f}", by=_printed_by(answer))
    elif answer.rate_formula == "proposed":
        yield WORDS.say("log_rate_proposed", by=_printed_by(answer))
    if answer.tokens_measured is not None:
        yield WORDS.say("log_measured", tokens=answer.tokens_measured)
    if answer.rates_disagree:
        yield WORDS.say("log_disagree", tokens=tokens)
    if answer.conflict is not None:
        yield WORDS.say("log_conflict", said=answer.conflict, given=answer.question.draft_tokens)
    for other in log.others:
        yield WORDS.say("log_other", what=other.what, length=amount(other.length), lines=plural(other.lines, "line"))


def _printed_by(answer: Acceptance) -> str:
    """The releases whose meaning the rates in the log have, where the engine has had several."""
    known = answer.counting.known
    kind = next((kind for kind in rate_kinds().values() if kind.formula == answer.rate_formula), None)
    span = kind.span(known.id) if known is not None and kind is not None else None
    return WORDS.say("log_rate_by", engine=known.name, span=span) if known is not None and span else ""


def place_lines(positions: tuple[float, ...], width: int) -> Iterator[Line]:
    """A bar for each place: how often its token is accepted at all, and once it is reached."""
    bar = max(min(width - 44, _WIDEST_BAR), 10)
    yield line(Segment(f"{'place':<7}{'accepted':<{bar + 10}}once reached", "label"), indent=4)
    last = max((place for place, all_ in enumerate(positions, 1) if all_ > 0), default=0)
    shown = min(last + 1, len(positions), _PLACES_SHOWN)
    for place, (all_, reached) in enumerate(zip(positions[:shown], conditional(positions)[:shown], strict=True), 1):
        full = round(min(max(all_, 0.0), 1.0) * bar)
        told = share(reached) if reached is not None else "too few"
        yield line(
            f"{place:<7}", Segment("█" * full, "fix"), Segment("·" * (bar - full), "quiet"),
            f" {share(all_):>7}  {told:>8}", indent=4, wrap=False,
        )  # fmt: skip
    if len(positions) > shown:
        none = ", none of them ever accepted" if last <= shown else ""
        yield line(Segment(f"and {plural(len(positions) - shown, 'further place')}{none}", "quiet"), indent=4)


def meaning_lines(answer: Acceptance, judgement: Judgement) -> Iterator[Line]:
    """Accepted draft tokens, per-token acceptance, and how engines print the same."""
    counting, length = judgement.reading.counting, judgement.length
    low, high = judgement.acceptance
    values = {
        "accepted": amount(length - 1),
        "proposed": counting.proposed,
        "share": share((length - 1) / counting.proposed) if counting.proposed else "",
        "acceptance": share(low),
        "low": share(low),
        "high": share(high) if high is not None else "",
        "topk": counting.topk,
        "length": amount(length),
        "tokens": counting.tokens,
    }
    ending = "_open" if counting.proposed is None else "_tree" if counting.tree else ""
    yield BLANK
    yield line(Segment("what it says", "label"), indent=2)
    yield _row("accepted", WORDS.say(f"accepted{ending}", **values))
    yield _row("per token", WORDS.say(f"per_token{ending}", **values))
    printed = list(_printed(answer, judgement))
    for number, text in enumerate(printed):
        yield _row("printed as" if not number else "", text)
    if counting.known is not None and counting.tokens is not None:
        known = counting.known
        text = WORDS.say("counts", name=known.name, number=known.number, tokens=counting.tokens, counts=known.counts)
        yield _row("counted", Segment(text, "quiet"))
    if counting.chain_taken:
        yield _row("", Segment(WORDS["chain_taken"], "quiet"))
    if counting.assumed:
        text = WORDS.say("assumed", tokens=counting.tokens, less=max((counting.tokens or 0) - 1, 0))
        yield _row("taken", Segment(text, "quiet"))


def _printed(answer: Acceptance, judgement: Judgement) -> Iterator[str]:
    """The rate that each engine prints for this length, with this number of draft tokens."""
    counting = judgement.reading.counting
    tokens, length = counting.tokens, judgement.length
    if tokens is None or counting.tree:
        return
    asked = [counting.known] if counting.known is not None else list(engines().values())
    texts: dict[str, list[str]] = {}
    for engine in asked:
        if counting.engine is not None and engine.id != counting.engine:
            continue
        # A chain of SGLang has steps + 1 tokens, whatever the line says.
        own = (counting.proposed or 0) + engine.verified if counting.known is not None else tokens
        for kind in rate_kinds_of(engine.id, answer.release):
            if kind.formula == "matches":
                continue
            below = own if kind.formula == "verified" else own - engine.verified
            if below < 1:
                continue
            rate = (length if kind.formula == "verified" else length - 1) / below
            if rate > 1.005:
                continue
            span = kind.span(engine.id)
            text = f"{WORDS[f'printed_{kind.formula}']} {rate:.2f}"
            texts.setdefault(text, []).append(f"{engine.name} {span}" if span else engine.name)
    for text, names in texts.items():
        yield f"{text} by {', '.join(names)}"


def paying_lines(answer: Acceptance, judgement: Judgement) -> Iterator[Line]:
    """Speeds, cost of a step, the length at which it breaks even, and what fewer draft tokens would give."""
    pays = judgement.paying
    if pays is None:
        return
    values = _paying_values(judgement, pays)
    yield BLANK
    yield line(Segment("whether it pays", "label"), indent=2)
    name, style = _verdict(judgement, pays)
    yield line(Segment(WORDS.say(name, **values), style), indent=4, hang=2)
    speed = WORDS.say("pays_speed", **values)
    if answer.speed_of_log:
        speed += f" ({WORDS.say('pays_of_log', **values)})"
    yield _row("speed", speed)
    if pays.cost >= 1:
        yield _row("cost", WORDS.say("pays_cost", **values))
    if pays.each is not None:
        yield _row("drafting", WORDS.say("pays_each", **values))
    best = max(pays.fewer, key=lambda fewer: fewer.speedup, default=None)
    if best is not None and best.speedup > max(pays.speedup, 1.0) + 0.005:
        text = WORDS.say(
            "pays_fewer",
            proposed=plural(best.proposed, "draft token"),
            length=amount(best.length),
            speedup=amount(best.speedup),
        )
        yield _row("fewer", text)
    yield _row("", Segment(WORDS["pays_load"], "quiet"))


def _verdict(judgement: Judgement, pays: Paying) -> tuple[str, str]:
    if pays.cost < 0.995:
        return "pays_cheap", "warning"
    if abs(pays.speedup - 1) < 0.005:
        return "pays_even", "warning"
    if pays.speedup > 1:
        return "pays_yes", "fix"
    if pays.possible is False:
        return "pays_never", "error"
    return ("pays_no" if pays.needed is not None and not judgement.reading.counting.tree else "pays_no_open"), "error"


def _paying_values(judgement: Judgement, pays: Paying) -> dict[str, object]:
    counting = judgement.reading.counting
    return {
        "with_draft": show(f"{pays.with_draft:g}"),
        "baseline": show(f"{pays.baseline:g}"),
        "speedup": amount(pays.speedup),
        "cost": amount(pays.cost),
        "length": amount(judgement.length),
        "needed": share(pays.needed) if pays.needed is not None else "",
        "acceptance": share(judgement.acceptance[0]),
        "proposed": counting.proposed,
        "most": counting.most,
        "each": amount(pays.each) if pays.each is not None else "",
    }
