"""From what a person gives (a length, a rate or a log) to the answer: what `ckptdoctor acceptance` calls."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ckptdoctor.acceptance.counting import Counting, counting_of, counting_of_launch
from ckptdoctor.acceptance.judging import Judgement, Speeds, judge
from ckptdoctor.acceptance.knowledge import engines, rate_kinds_of
from ckptdoctor.acceptance.log_reader import LogFigures, read_log
from ckptdoctor.acceptance.readings import Reading, readings_of_length, readings_of_rate
from ckptdoctor.errors import UsageError
from ckptdoctor.launch.files import read_launch
from ckptdoctor.launch.line import Launch
from ckptdoctor.text import listing, show

__all__ = ["Acceptance", "Question", "acceptance_for"]

MOST_TOKENS = 1024
"""Draft tokens of a step at most, of which any is believed."""


@dataclass(frozen=True)
class Question:
    """What was given: one of `length`, `rate` (a share in [0, 1]) and `log`; the rest as it is known.

    `engine` is `NAME` or `NAME==RELEASE`; `with_draft` and `baseline` are tokens per second.
    """

    length: float | None = None
    rate: float | None = None
    log: str | None = None
    draft_tokens: int | None = None
    engine: str | None = None
    launch: str | None = None
    published: float | None = None
    with_draft: float | None = None
    baseline: float | None = None
    fail_under: float | None = None


@dataclass(frozen=True)
class Acceptance:
    """The answer: a judgement for each reading of the number, the likeliest or only one first.

    `given` is `length`, `rate` or `log`. `rate_formula` is what the rates in the log turned out to be (see
    rules/acceptance/logs.yaml), `tokens_measured` the number of draft tokens that they gave away. `conflict` is the
    number of draft tokens in the log where it differs from the one that was given. `values` fill the commands. `passed`
    is None where no least length was asked for.
    """

    question: Question
    given: str
    counting: Counting
    release: str | None
    judgements: tuple[Judgement, ...]
    log: LogFigures | None = None
    rate_formula: str | None = None
    tokens_measured: int | None = None
    rates_disagree: bool = False
    conflict: int | None = None
    speed_of_log: bool = False
    values: Mapping[str, str | None] | None = None
    passed: bool | None = None

    @property
    def undecided(self) -> bool:
        """Whether the number has several readings with different meanings."""
        found = {j.band.id if j.band is not None else None for j in self.judgements if j.possible}
        return len(found) > 1 or (len(self.judgements) > 1 and len(found) == 1 and self.given == "rate")


def acceptance_for(question: Question) -> Acceptance:
    """Answer a question. Raises `UsageError` for a question without an answer, `CannotExamineError` for such a log."""
    _check(question)
    engine, release = _engine(question.engine)
    launch = read_launch(question.launch) if question.launch is not None else None
    counting = counting_of(engine, question.draft_tokens, "--draft-tokens")
    if question.draft_tokens is None:
        counting = replace(counting, source=None)
    if launch is not None:
        if launch.engine is None:
            raise UsageError("--launch: no command of a known engine is in it")
        counting = counting.or_else(counting_of_launch(launch))
        release = release or launch.release
    if question.log is not None:
        return _of_log(question, counting, release, launch)
    if question.rate is not None:
        readings = readings_of_rate(question.rate, counting, release)
    else:
        readings = readings_of_length(question.length or 0.0, counting)
    given = "rate" if question.rate is not None else "length"
    judgements = tuple(_judged(question, reading, _speeds(question, None)) for reading in readings)
    answer = Acceptance(question, given, counting, release, judgements)
    return _finished(answer, launch)


def _of_log(question: Question, given: Counting, release: str | None, launch: Launch | None) -> Acceptance:
    log = read_log(question.log or "-", given)
    counting = given.or_else(log.counting)
    if counting.proposed is None and log.total.proposed is not None:
        verified = counting.known.verified if counting.known is not None else 0
        counting = replace(counting, tokens=log.total.proposed + verified, source="what the log counts")
    decided, measured, disagree = None, None, False
    pairs = log.total.pairs
    known = counting.known
    if known is not None and pairs.count:
        tokens = counting.tokens
        if tokens is not None and not counting.tree and counting.steps is not None:
            tokens = counting.steps + known.verified  # what the engine makes of it
        meant = {kind.formula for kind in rate_kinds_of(known.id, release or log.release)}
        found = pairs.decided(known.verified, tokens, meant)
        if found is not None:
            decided, number = found
            measured = number if tokens is None else None
            if measured is not None and counting.proposed is None:
                counting = replace(counting, tokens=measured, source="the rates that the log prints")
        # A rate and a length of which no number of tokens makes sense: adaptive drafting, or an edited log.
        disagree = (
            found is None
            and tokens is not None
            and not any(
                pairs.fits(formula, tokens - less) for formula, less in (("verified", 0), ("proposed", known.verified))
            )
        )
    reading = Reading(log.total.length, counting, "the mean accepted length of the log")
    judgement = _judged(question, reading, _speeds(question, log), log.total.positions)
    said = log.counting.tokens
    conflict = said if said is not None and question.draft_tokens not in (None, said) else None
    of_log = question.baseline is not None and question.with_draft is None
    answer = Acceptance(
        question,
        "log",
        counting,
        release or log.release,
        (judgement,),
        log,
        decided,
        measured,
        disagree,
        conflict,
        of_log,
    )
    return _finished(answer, launch)


def _judged(
    question: Question, reading: Reading, speeds: Speeds | None, positions: tuple[float, ...] = ()
) -> Judgement:
    return judge(reading, positions=positions, published=question.published, speeds=speeds)


def _speeds(question: Question, log: LogFigures | None) -> Speeds | None:
    if question.baseline is None:
        return None
    speed = question.with_draft
    if speed is None and log is not None:
        speed = log.total.throughput
    if speed is None:
        raise UsageError("--baseline needs --tokens-per-second: the speed with speculation, under the same load")
    return Speeds(speed, question.baseline)


def _finished(answer: Acceptance, launch: Launch | None) -> Acceptance:
    question, log = answer.question, answer.log
    least = min(j.length for j in answer.judgements if j.possible or len(answer.judgements) == 1)
    passed = None if question.fail_under is None else least >= question.fail_under
    if any(not j.possible for j in answer.judgements) and question.fail_under is not None:
        passed = False  # a number that is no length proves nothing
    engine = answer.counting.engine
    values = {
        "draft": launch.draft_path if launch is not None else log.draft if log is not None else None,
        "target": launch.target_path if launch is not None else log.target if log is not None else None,
        "engine": f"{engine}=={answer.release}" if engine and answer.release else engine,
        "launch": question.launch,
        "tokens": None if answer.counting.tokens is None else str(answer.counting.tokens),
        "length": f"{answer.judgements[0].length:.2f}",
        "number": _number(answer),
    }
    return replace(answer, values=values, passed=passed)


def _number(answer: Acceptance) -> str:
    """What was given, as it stands in a command."""
    question, counting = answer.question, answer.counting
    if question.log is not None:
        words = ["--log", question.log]
    elif question.rate is not None:
        words = ["--rate", f"{question.rate:g}"]
    else:
        words = [f"{question.length or 0:g}"]
    if question.draft_tokens is not None:
        words += ["--draft-tokens", str(question.draft_tokens)]
    elif question.launch is not None:
        words += ["--launch", question.launch]
    elif counting.proposed is None:
        words += ["--draft-tokens", "N"]
    return shlex.join(words if question.engine is None else [*words, "--engine", question.engine])


def _check(question: Question) -> None:
    given = [name for name in ("length", "rate", "log") if getattr(question, name) is not None]
    if len(given) != 1:
        raise UsageError(
            "give one number: an accepted LENGTH, --rate RATE, or --log FILE"
            if not given
            else f"give one of LENGTH, --rate and --log, not {listing(given)} together"
        )
    if question.with_draft is not None and question.baseline is None:
        raise UsageError("--tokens-per-second needs --baseline: the speed without speculation, under the same load")


def _engine(name: str | None) -> tuple[str | None, str | None]:
    if name is None:
        return None, None
    id_, _, release = name.strip().partition("==")
    wanted = id_.strip().lower()
    for engine in engines().values():
        if wanted in (engine.id, engine.name.lower()):
            return engine.id, release.strip() or None
    raise UsageError(
        f"'{show(name, 40)}' is no engine whose numbers are known; known are {listing(engines(), 20)}"
    )  # fmt: skip
