"""An answer of `acceptance` as JSON, an interface: rules/schema/acceptance.schema.json is written from these shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

from ckptdoctor.jsontext import dumps
from ckptdoctor.report.acceptance.as_text import band_text, commands
from ckptdoctor.shapes import Document, Shape, Share, encode, item, limits

if TYPE_CHECKING:
    from ckptdoctor.acceptance import knowledge
    from ckptdoctor.acceptance.asking import Acceptance
    from ckptdoctor.acceptance.judging import Judgement

__all__ = ["Answer", "answer_text"]

Speed: TypeAlias = Annotated[float, limits(exclusiveMinimum=0)]


class Judged(NamedTuple):
    """One reading of an answer's number, and the answer."""

    answer: Acceptance
    judgement: Judgement

    @property
    def band(self) -> knowledge.Band | None:
        """The band with the values of the number in its sentences."""
        return None if self.judgement.band is None else self._worded(self.judgement.band)

    @property
    def signs(self) -> list[knowledge.Band]:
        """The signs, likewise."""
        return [self._worded(sign) for sign in self.judgement.signs]

    def _worded(self, band: knowledge.Band) -> knowledge.Band:
        title, says = (band_text(text, self.judgement) for text in (band.title, band.says))
        return replace(band, title=title, says=says)


class DraftTokens(Shape):
    engine: str | None
    number: int | None = item(
        "As the engine counts them; SGLang's number has the last accepted token in it.", at="tokens"
    )
    steps: int | None
    topk: int | None
    proposed: int | None = item("The longest chain of proposals that a step can accept.")
    most: int | None = item("The greatest accepted length: proposed + 1.")
    assumed: bool = item("number was taken for the number of proposals, since no engine is known.")
    source: str | None


class Between(Shape):
    low: Share = item(at=0)
    high: Share | None = item(at=1)


class Cause(Shape):
    says: str
    rules: list[Annotated[str, limits(pattern="^[A-Z]{3}[0-9]{3}$")]]
    seen_in: list[Annotated[str, limits(pattern=r"^[\w.-]+/[\w.-]+#[0-9]+$")]]


class Band(Shape):
    id: Annotated[str, limits(pattern="^[a-z][a-z-]*$")]
    level: Literal["error", "warning", "note", "good"]
    title: str
    says: str
    causes: list[Cause] = item("The likeliest first.")


class Fewer(Shape):
    proposed: int
    length: float
    speedup: float


class Paying(Shape):
    tokens_per_second: Speed = item(at="with_draft")
    baseline: Speed
    speedup: float
    pays: bool = item(at=lambda pays: pays.speedup > 1)
    step_cost: float = item("A step with drafting and verification, in plain decode steps.", at="cost")
    break_even_length: float = item(at="cost")
    break_even_acceptance: float | None = item(
        "The per-token acceptance that gives this length; null where none does, or where the number of draft tokens is "
        "not known.",
        at="needed",
    )
    possible: bool | None = item("Whether so many draft tokens can pay at all.")
    draft_token_cost_at_most: float | None = item(
        "In plain decode steps, if verification costs no more than one.", at="each"
    )
    fewer: list[Fewer] = item("What fewer draft tokens would give, by the same cost for each.")


class Reading(Shape):
    length: float = item(
        "Accepted length: accepted draft tokens of a step and the target's own token.", at="judgement.length"
    )
    possible: bool = item(at="judgement.possible")
    because: str = item("The definition by which the number means this length.", at="judgement.reading.because")
    said_by: list[str] = item("The engines and releases that mean it so.", at="judgement.reading.said_by")
    draft_tokens: DraftTokens = item(at="judgement.reading.counting")
    per_token_acceptance: Between = item(
        "The share of reached draft tokens that are accepted, if all are alike. One value for a chain, bounds for a "
        "tree; high is null where the number of draft tokens is not known.",
        at="judgement.acceptance",
    )
    band: Band | None
    signs: list[Band] = item("What else the figures show.")
    published: float | None = item(at="judgement.published")
    paying: Paying | None = item(at="judgement.paying")
    next: list[str] = item("Commands to run next, in this order.", at=lambda judged: commands(*judged))


class LogLength(Shape):
    mean: float = item(at="length")
    low: float
    high: float


class OtherLines(Shape):
    what: str
    length: float
    lines: int


class Log(Shape):
    name: str = item(at="log.name")
    what: str = item("The kind of lines that was taken.", at="log.what")
    lines: Annotated[int, limits(minimum=1)] = item(at="log.total.lines")
    length: LogLength = item(at="log.total")
    weighed_by: Literal["steps", "requests", "lines"] = item(at="log.total.weighed_by")
    steps: float | None = item(at="log.total.drafts")
    positions: list[float] = item(
        "Share of all steps in which the draft token at each place was accepted.", at="log.total.positions"
    )
    throughput: float | None = item(
        "Median of the lines, in tokens per second of all requests together.", at="log.total.throughput"
    )
    running: Annotated[list[int], limits(minItems=2, maxItems=2)] | None = item(at="log.total.running")
    rate_formula: Literal["verified", "proposed"] | None = item(
        "verified: length / draft tokens. proposed: accepted / proposed draft tokens."
    )
    draft_tokens_measured: int | None = item(
        "The number that length and rate together give away.", at="tokens_measured"
    )
    rates_disagree: bool
    draft_tokens_of_log: int | None = item(at="log.counting.tokens")
    warm_up_lines: int = item(at="log.warm_up")
    first_line_dropped: bool = item(at="log.total.dropped_first")
    earlier_starts: int = item(at="log.starts")
    lines_cut: int = item(at="log.cut")
    others: list[OtherLines] = item(at="log.others")


class Answer(Document):
    """What `ckptdoctor acceptance --format json` prints. What is not known is null."""

    given: Literal["length", "rate", "log"] = item("What the answer starts from.")
    rate: Share | None = item("The rate that was given, as a share.", at="question.rate")
    engine: str | None = item("The id of the engine whose number it is.", at="counting.engine")
    release: str | None
    undecided: bool = item("The number has several readings that mean different things.")
    readings: Annotated[list[Reading], limits(minItems=1)] = item(
        at=lambda answer: [Judged(answer, judgement) for judgement in answer.judgements]
    )
    log: Log | None = item(at=lambda answer: None if answer.log is None else answer)
    fail_under: float | None = item(at="question.fail_under")
    passed: bool | None = item("Whether every reading reaches fail_under; null without it.")


def answer_text(answer: Acceptance) -> str:
    """The document that `acceptance --format json` prints."""
    return dumps(encode(Answer, answer))
