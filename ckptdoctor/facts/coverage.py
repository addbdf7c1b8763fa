"""Hot-token coverage: how much of a text the draft can propose at all, from the counts of its tokens.

A token outside the draft vocabulary is never proposed. The target writes it by itself, and what was drafted from
there on is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptdoctor.facts.tokenizer.scripts import DIGITS, NOTHING, script_of
from ckptdoctor.facts.tokenizer.token_texts import TokenTexts
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.text import show
from ckptdoctor.tokencounts.token_counts import TokenCounts
from ckptdoctor.unknown import Known, Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

__all__ = ["NEEDS_COUNTS", "Costly", "Coverage", "Part", "coverage_of"]

NEEDS_COUNTS = Unknown("token counts (--token-counts FILE)")
SHOWN = 50
"""Tokens of a list at most."""

ACCEPTANCE, DRAFT_TOKENS = 0.8, 3
"""What the estimate assumes: the share of proposable tokens that are accepted, and the length of the chain."""

_SPECIAL = "special tokens"


@dataclass(frozen=True)
class Part:
    """A group of tokens: a script, the special tokens, the tokens of single bytes, the digits.

    `count` is how many positions of the text are in it and `covered` how many of these the draft can propose;
    `tokens` and `missing` are the same of the vocabulary: its ids, and those outside the draft vocabulary.
    `missing_ids` are at most 50 of the latter, those that cost most first; ids that do not occur come last.
    """

    name: str
    count: int
    covered: int
    missing_ids: tuple[int, ...]
    tokens: int = 0
    missing: int = 0

    @property
    def share(self) -> float | None:
        """The share of its positions that the draft can propose; None when the text has none."""
        return self.covered / self.count if self.count else None

    def __str__(self) -> str:
        share = "not in the text" if self.share is None else f"{100 * self.share:.2f} % of {self.count}"
        return f"{self.name} {share}"


@dataclass(frozen=True)
class Costly:
    """A token outside the draft vocabulary: its text (`""` when not known), its count, its share of all positions."""

    id: int
    text: str
    count: int
    share: float

    def __str__(self) -> str:
        text = f" {show(repr(self.text), 40)}" if self.text else ""
        return f"{self.id}{text} ({100 * self.share:.2f} %)"


@dataclass(frozen=True)
class Coverage:
    """How much of a text the draft can propose.

    `total` are the positions of the text and `covered` those whose token is in the draft vocabulary of `size` ids;
    `share` = covered / total. `best_share` is what the most frequent `size` tokens of this text would cover, and
    `curve` the same for other sizes, ascending. `scripts` are the parts of the text by writing system (space and
    punctuation by themselves), largest first; with `specials` and `digits` they add up to the whole. They are empty
    without a tokenizer.json. `bytes` also count in the script of their character. `costliest` are at most 50 tokens
    outside the draft vocabulary, those that cost most first. `kind` and `source` are those of the counts.

    `accepted_with_all`, `accepted_with_map` and `accepted_with_best` estimate the accepted length (tokens for each
    pass of the target, its own one included) of a chain of `assumed_draft_tokens` k: with a draft vocabulary that has
    every token, with this one, and with the best of its size. Assumption: each position is in the draft vocabulary
    with the chance c that the text gives, whatever stands before it; a token that can be proposed is accepted with
    the same chance p = `assumed_acceptance`, whatever the vocabulary; a chain ends at the first token that is not.
    Then the length is the sum of (c·p)^i for i from 0 to k. In real text the tokens outside come in clusters and are
    harder to guess than others, so the estimate is on the high side of what is lost.
    """

    total: int
    covered: int
    share: float
    size: int
    best_share: float
    curve: tuple[tuple[int, float], ...]
    scripts: tuple[Part, ...]
    specials: Known[Part]
    bytes: Known[Part]
    digits: Known[Part]
    costliest: tuple[Costly, ...]
    accepted_with_all: float
    accepted_with_map: float
    accepted_with_best: float
    assumed_acceptance: float = ACCEPTANCE
    assumed_draft_tokens: int = DRAFT_TOKENS
    kind: str = ""
    source: str = ""

    @property
    def percent(self) -> float:
        """`share` in percent, to two digits; never 100 while something is missing."""
        return _percent(self.covered, self.total)

    @property
    def best_percent(self) -> float:
        """`best_share` in percent, to two digits."""
        return round(100 * self.best_share, 2)

    @property
    def accepted_lost(self) -> float:
        """What the missing tokens cost in accepted length, as estimated, to two digits."""
        return round(self.accepted_with_all - self.accepted_with_map, 2)

    @property
    def above_one_percent(self) -> tuple[Costly, ...]:
        """The tokens outside the draft vocabulary that are more than one position in a hundred each."""
        return tuple(token for token in self.costliest if 100 * token.count > self.total)

    @property
    def weakest(self) -> tuple[Part, ...]:
        """The scripts that lose most positions, at most five, the worst first."""
        losing = [part for part in self.scripts if part.covered < part.count]
        return tuple(sorted(losing, key=lambda part: part.covered - part.count)[:5])


def coverage_of(
    counts: TokenCounts,
    vocab: VocabMap,
    texts: Known[TokenTexts],
    *,
    acceptance: float = ACCEPTANCE,
    draft_tokens: int = DRAFT_TOKENS,
) -> Known[Coverage]:
    """Compare `counts` with the draft vocabulary. Unknown unless the map is right and the counts fit the vocabulary.

    `acceptance` (0 to 1) and `draft_tokens` are the assumptions of the estimate. All sums are of whole numbers.
    """
    import numpy as np

    allowed, size, vocabulary = vocab.proposable, vocab.draft_size, vocab.size
    for fact in (allowed, size, vocabulary):
        if isinstance(fact, Unknown):
            return fact
    assert not isinstance(allowed, Unknown)
    assert not isinstance(size, Unknown)
    assert not isinstance(vocabulary, Unknown)
    used = np.flatnonzero(counts.counts)
    if len(used) and int(used[-1]) >= vocabulary:
        return Unknown(f"token counts for the target's {vocabulary} tokens (these count token {int(used[-1])})")
    numbers = np.zeros(vocabulary, dtype=np.int64)
    numbers[: min(vocabulary, len(counts.counts))] = counts.counts[:vocabulary]
    inside = np.zeros(vocabulary, dtype=bool)
    if allowed is None:
        inside[: min(size, vocabulary)] = True
    else:
        inside[np.fromiter(allowed, dtype=np.int64, count=len(allowed))] = True
    total, covered = int(numbers.sum()), int(numbers[inside].sum())
    if not total:
        return NEEDS_COUNTS
    sums = np.cumsum(np.sort(numbers)[::-1])
    best = int(sums[min(size, vocabulary) - 1]) if size else 0
    curve = tuple((n, int(sums[n - 1]) / total) for n in _grid(size, vocabulary))
    pieces = () if isinstance(texts, Unknown) else texts.pieces
    scripts, digits = _by_script(numbers, inside, texts)
    return Coverage(
        total=total,
        covered=covered,
        share=covered / total,
        size=size,
        best_share=best / total,
        curve=curve,
        scripts=scripts,
        specials=texts if isinstance(texts, Unknown) else _part(_SPECIAL, texts.special_ids, numbers, inside),
        bytes=texts if isinstance(texts, Unknown) else _part("single bytes", texts.byte_ids, numbers, inside),
        digits=digits,
        costliest=_costliest(numbers, inside, pieces, total),
        accepted_with_all=_accepted(1.0, acceptance, draft_tokens),
        accepted_with_map=_accepted(covered / total, acceptance, draft_tokens),
        accepted_with_best=_accepted(best / total, acceptance, draft_tokens),
        assumed_acceptance=acceptance,
        assumed_draft_tokens=draft_tokens,
        kind=counts.kind,
        source=counts.source,
    )


def _accepted(share: float, acceptance: float, draft_tokens: int) -> float:
    return sum((share * acceptance) ** i for i in range(draft_tokens + 1))


def _percent(part: int, whole: int) -> float:
    if part == whole:
        return 100.0
    return min(round(100 * part / whole, 2), 99.99)


def _grid(size: int, vocabulary: int) -> list[int]:
    """Sizes worth a look: from 1,024 (a small vocabulary: 16) by halves and doubles, with `size` and the whole."""
    found, step = {min(size, vocabulary), vocabulary} - {0}, 1024 if vocabulary > 4096 else 16
    while step < vocabulary:
        found |= {step, step * 3 // 2}
        step *= 2
    return sorted(n for n in found if n <= vocabulary)


def _costliest(numbers: Ints, inside: Bools, pieces: tuple[str, ...], total: int) -> tuple[Costly, ...]:
    import numpy as np

    outside = np.flatnonzero(~inside & (numbers > 0))
    return tuple(
        Costly(token, pieces[token] if token < len(pieces) else "", int(numbers[token]), int(numbers[token]) / total)
        for token in _first(outside, numbers)
    )


def _first(ids: Ints, numbers: Ints) -> list[int]:
    """The ids of `ids` (ascending) that occur most often, at most `SHOWN`; the smaller of two that are equal first."""
    import numpy as np

    return [int(token) for token in ids[np.argsort(-numbers[ids], kind="stable")[:SHOWN]]]


def _part(name: str, ids: Iterable[int], numbers: Ints, inside: Bools) -> Part:
    import numpy as np

    known = np.array(sorted(i for i in ids if i < len(numbers)), dtype=np.int64)
    missing = known[~inside[known]]
    covered = known[inside[known]]
    return Part(
        name=name,
        count=int(numbers[known].sum()),
        covered=int(numbers[covered].sum()),
        missing_ids=tuple(_first(missing, numbers)),
        tokens=len(known),
        missing=len(missing),
    )


def _by_script(numbers: Ints, inside: Bools, texts: Known[TokenTexts]) -> tuple[tuple[Part, ...], Known[Part]]:
    """The parts by script, and the digits among them."""
    if isinstance(texts, Unknown):
        return (), texts
    groups: dict[str, list[int]] = {DIGITS: []}
    for token in range(len(numbers)):
        piece = texts.pieces[token] if token < len(texts.pieces) else ""
        name = _SPECIAL if token in texts.special_ids else script_of(piece) if piece else NOTHING
        groups.setdefault(name, []).append(token)
    parts = {name: _part(name, ids, numbers, inside) for name, ids in groups.items()}
    shown = [part for name, part in parts.items() if part.count and name not in (_SPECIAL, DIGITS)]
    return tuple(sorted(shown, key=lambda part: (-part.count, part.name))), parts[DIGITS]
