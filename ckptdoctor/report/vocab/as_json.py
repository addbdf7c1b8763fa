"""A draft vocabulary as JSON, an interface: `rules/schema/vocab.schema.json` is written from these shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ckptdoctor.jsontext import dumps
from ckptdoctor.shapes import Count, Document, Shape, Share, encode, item, itself
from ckptdoctor.unknown import Unknown

if TYPE_CHECKING:
    from ckptdoctor.vocab import page

__all__ = ["Page", "page_text"]

_FIRST = 8
Multiple: TypeAlias = Literal[0, 1, 2]
Order: TypeAlias = Literal["ascending", "frequency", "other"]


class LengthClaim(Shape):
    source: str
    value: int


class Tensor(Shape):
    name: str
    file: str
    dtype: str
    shape: list[int]


class Map(Shape):
    verdict: Literal[
        "right", "identity", "stale_t2d", "absolute", "offset_twice", "damaged", "open", "zeros_never_loaded",
        "zeros_first", "zeros_lost", "zeros_undecided", "empty",
    ] = item(at="vocab.map.verdict")  # fmt: skip
    reading: Multiple | None = item(
        "The k of target = d2t[i] + k·i that the verdict speaks for: 0 ids, 1 offsets, 2 offset twice; null where none "
        "is sure."
    )
    readings: list[int] = item("All k that fit.", at="vocab.map.readings")
    confirmed: int | None = item("The k whose targets are exactly those that t2d marks.", at="vocab.map.confirmed")
    violations: Count = item("Entries that are wrong as offsets.", at="vocab.map.violations")
    order: Order = item(at="vocab.map.order")
    padding: Count = item("Entries at the end that only fill the map up.", at="vocab.map.padding")
    marked: int | None = item("Ids that t2d marks.", at="vocab.mask_count")
    first_targets: list[int] | None = item(
        "The target ids of the first draft ids under `reading`.",
        at=lambda page: None if page.ids is None else page.ids[:_FIRST].tolist(),
    )


class Violation(Shape):
    """How many entries are wrong, and the first of them."""

    count: Count
    draft_id: int
    target_id: int
    other: int | None


class TokenMap(Shape):
    form: Literal["torch", "npy", "json"]
    dtype: str
    shape: list[int]
    meaning: Literal["ids", "offsets", "mask", "fractions", "other"]
    order: Order
    first: list[int] = item(at=lambda found: found.values[:_FIRST])
    repeated: Violation | None
    out_of_range: Violation | None


class Span(Shape):
    first: Count
    last: Count
    held: Count


class Token(Shape):
    id: int
    text: str
    role: str


class Specials(Shape):
    inside: list[Token]
    outside: list[Token]


class Cosine(Shape):
    reading: Multiple = item(at=0)
    cosine: float = item(at=1)


class Heads(Shape):
    by_reading: list[Cosine]
    best: Multiple | None = item("The reading that is clearly best; null when none stands out.")
    chance: float = item("The mean of rows paired at random.")
    spread: float = item("Their standard deviation.")
    sampled: Count
    at_chance: bool
    mask: float | None = item("The mean when the rows stand in the order of t2d's marks.")
    follows_mask: bool
    shift: int | None
    id_shift: int | None
    wrong_from: int | None
    wrong_to: int | None
    elsewhere: Count
    embedding: float | None
    embedding_fits: bool | None


class Part(Shape):
    """A group of tokens: positions of the text in it and those that the draft can propose; ids in it and outside the
    draft vocabulary."""

    name: str
    count: Count
    covered: Count
    tokens: Count
    missing: Count
    missing_ids: list[int]


class Point(Shape):
    size: Count = item(at=0)
    share: Share = item(at=1)


class Accepted(Shape):
    with_all: float = item(at="accepted_with_all")
    with_map: float = item(at="accepted_with_map")
    with_best: float = item(at="accepted_with_best")
    assumed_acceptance: Share
    assumed_draft_tokens: Count


class Costly(Shape):
    id: Count
    text: str
    count: Count
    share: Share


class Coverage(Shape):
    source: str
    kind: Literal["specforge", "speculators", "json", "npy", "ids", "text"]
    total: Count
    covered: Count
    share: Share
    size: Count
    best_share: Share = item("What the most frequent ids, as many, would cover.")
    curve: list[Point] = item("The same for other sizes.")
    scripts: list[Part]
    specials: Part | None
    bytes: Part | None
    digits: Part | None
    accepted: Accepted = item("The accepted length, as estimated under the two assumptions.", at=itself)
    costliest: list[Costly] = item("Tokens outside the draft vocabulary, those that cost most first.")


def _needs(page: page.Page) -> dict[str, str]:
    parts = {"map": page.vocab.verdict, "specials": page.outside, "heads": page.heads, "coverage": page.coverage}
    return {name: value.needs for name, value in parts.items() if isinstance(value, Unknown)}


def _coverage(page: page.Page) -> dict[str, Any] | None:
    if isinstance(page.coverage, Unknown) or page.counts is None:
        return None
    return encode(Coverage, page.coverage, source=page.counts.source, kind=page.counts.kind)


class Page(Document):
    """What `ckptdoctor vocab show --format json` prints. What is not known is null, and `needs` says what it takes."""

    path: str = item("The draft or token map as it was named.")
    target: str | None = item(
        "The target as it was named.", at=lambda page: None if page.target is None else page.target.path
    )
    picture: str | None = item("The file that --svg named.")
    draft_vocab_size: int | None = item(at="vocab.draft_size")
    vocab_size: int | None = item("Ids of the target's vocabulary.", at="vocab.size")
    lengths: list[LengthClaim] = item("All that says how many ids the draft proposes from.", at="vocab.lengths")
    lengths_agree: bool = item(at="vocab.lengths_agree")
    d2t: Tensor | None = item(at=lambda page: page.vocab.d2t if page.token_map is None else None)
    t2d: Tensor | None = item(at="vocab.t2d")
    map: Map | None = item(
        "What d2t means; null without one, and where it cannot be read.",
        at=lambda page: None if page.token_map is not None or page.vocab.map is None else page,
    )
    token_map: TokenMap | None = item("The file, when it is a token map of FR-Spec.")
    spans: list[Span] = item("Ranges of target ids, both ends in, and how many of them the draft can propose.")
    specials: Specials | None = item(
        "Special tokens that the draft can and cannot propose.",
        at=lambda page: None if isinstance(page.outside, Unknown) else page,
    )
    heads: Heads | None = item(
        "Rows of the draft's head against rows of the target's head: mean cosines of sampled rows."
    )
    coverage: Coverage | None = item("How much of the counted text the draft can propose.", at=_coverage)
    needs: dict[str, str] = item("What is null because it is not known, and what would make it known.", at=_needs)


def page_text(page: page.Page, svg: str | None = None) -> str:
    """The document that `vocab show --format json` prints; `svg` is where the picture was written."""
    return dumps(encode(Page, page, picture=svg))
