"""Rows of the draft's head against rows of the target's head: which tokens the rows were trained for.

A map alone shows that its numbers fit, not that they are those of this head. speculators starts a head as the target's
rows that t2d marks (eagle3/core.py: `self.lm_head.weight.data = masked_lm_head_weight`), and such rows keep a likeness
through training. SpecForge (sgl-project/SpecForge#478), the EAGLE reference (SafeAILab/EAGLE#305) and Model-Optimizer
(modeling_eagle.py: a plain `nn.Linear`) start from random numbers; nothing is said about those heads, however little
they resemble the target's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.checkpoint.quiet import quiet
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.naming.canonical import canonical_names
from ckptdoctor.facts.target_weights import TargetWeights
from ckptdoctor.facts.vocabulary.alignment import CLEAR, Block, Chance, own_pairs, weakest_block
from ckptdoctor.facts.vocabulary.head_rows import FEWEST, SAMPLE, HeadPair, compare_embeddings, paired
from ckptdoctor.facts.vocabulary.map_readings import READINGS
from ckptdoctor.facts.vocabulary.shifts import id_shift, refined, row_shift
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.unknown import Known, Unknown, UnknownFactError, known_or

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int64]

__all__ = ["HeadComparison", "compare_heads"]

WIDE_SAMPLE = 1024
"""Rows of both heads in which the same tokens are looked for when no reading fits."""
_PAIRS = 8
_NO_WEIGHTS = Unknown("the weights of the target, as .safetensors (--target PATH)")
_NO_LIKENESS = Unknown("a head that resembles the target's: this one was trained from other values, or long")


@dataclass(frozen=True)
class HeadComparison:
    """How rows of the draft's head resemble rows of the target's head. Cosines are means over sampled rows, after the
    mean row of each head is taken off, rounded to 3 digits.

    `by_reading` has (k, cosine) for each reading of d2t (target = d2t[i] + k·i) that stays in the target's head;
    without a d2t, draft id i is target id i, as engines take it (k = 1). `chance` and `spread` are mean and standard
    deviation of the cosines of rows paired at random. `best` is the reading that is clearly right, unknown when none
    stands out, which accuses nobody. `at_chance`: no reading does better than rows paired at random. `mask` is the
    cosine when the rows stand in the order of t2d's marks (None when t2d does not mark as many ids, or says the same as
    d2t); `follows_mask`: clearly so, while no reading of d2t fits.

    `shift`: row i of the head belongs to entry i + shift of d2t; `id_shift`: to the target id that many above the one
    that d2t gives; None when neither is so. `wrong_from`, `wrong_to` (exclusive): the rows of a block that do not fit
    while the others do; a shift is then that of the block. `elsewhere` counts sampled rows that are, beyond doubt,
    those of other mapped tokens than d2t says. `embedding` is the cosine of the draft's own embedding with the target's
    at the same ids (None: the draft has none), `embedding_fits` whether they are clearly alike (None: undecided).
    """

    by_reading: tuple[tuple[int, float], ...]
    chance: float
    best: Known[int]
    sampled: int
    shift: int | None
    wrong_from: int | None
    spread: float = 0.0
    at_chance: bool = False
    mask: float | None = None
    follows_mask: bool = False
    id_shift: int | None = None
    wrong_to: int | None = None
    elsewhere: int = 0
    embedding: float | None = None
    embedding_fits: bool | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        """`by_reading` to show: `0: 0.01`, `1: 0.87`."""
        return tuple(f"{reading}: {cosine}" for reading, cosine in self.by_reading)

    def cosine(self, reading: int) -> float | None:
        """The cosine under `reading`; None where it leaves the target's head."""
        return dict(self.by_reading).get(reading)


@quiet
def compare_heads(
    checkpoint: Checkpoint, vocab: VocabMap, target_weights: TargetWeights | None
) -> Known[HeadComparison]:
    """Compare the draft's head with the target's. Reads a few hundred rows of each, some MB, by ranges of bytes.

    Unknown when one of them is not there or packed, or the two have rows of different width. Never raises.
    """
    if target_weights is None or target_weights.head is None:
        return _NO_WEIGHTS
    named = canonical_names(checkpoint.tensors, knowledge().naming, strip_model=True)
    canonical = {n.canonical: checkpoint.tensors[n.stored] for n in reversed(named.values())}
    head = canonical.get("lm_head.weight")
    if head is None or len(head.shape) != 2 or not checkpoint.names_sound:
        return Unknown("a head of its own, that is not packed")
    if head.shape[1] != target_weights.head.shape[1]:
        return Unknown(
            f"a head as wide as the target's ({head.shape[1]} columns here, {target_weights.head.shape[1]} there)"
        )
    try:
        pair = HeadPair(checkpoint, head, target_weights, vocab)
        found = _compared(pair, vocab)
        cosine, fits = compare_embeddings(checkpoint, canonical.get("embed_tokens.weight"), target_weights)
    except UnknownFactError as missing:
        return missing.unknown
    return HeadComparison(**{**found, "embedding": cosine, "embedding_fits": fits})  # type: ignore[arg-type]


def _compared(pair: HeadPair, vocab: VocabMap) -> dict[str, object]:
    """The fields of the comparison but for the embeddings."""
    import numpy as np

    rows = pair.sample(SAMPLE)
    draft = pair.draft(rows)
    readings = [k for k in READINGS if pair.reaches(k)] if vocab.map is not None else [1]
    marks = _marks(pair, vocab)
    orders = {k: pair.ids(rows, k) for k in readings}
    if not readings and marks is None:
        raise UnknownFactError(Unknown("a d2t that stays in the target's vocabulary"))
    # What a head has in common is taken from rows of many tokens: a reading that gives one id over and over has none.
    usual = max(orders.values(), key=lambda ids: len(np.unique(ids)), default=None)
    first = usual if usual is not None else marks[rows] if marks is not None else rows
    chance = Chance.of(draft @ pair.target(first).T)
    cosines = {k: paired(draft, pair.target(ids)) for k, ids in orders.items()}
    by_mask = paired(draft, pair.target(marks[rows])) if marks is not None else None
    best = _best(cosines, orders, chance)
    lost = all(chance.is_faint(values) for values in cosines.values())
    follows = by_mask is not None and lost and chance.score(by_mask) >= CLEAR
    found: dict[str, object] = {
        "by_reading": tuple((k, round(float(values.mean()), 3)) for k, values in sorted(cosines.items())),
        "chance": round(chance.mean, 3), "spread": round(chance.spread, 3), "best": best, "sampled": len(rows),
        "at_chance": lost, "mask": None if by_mask is None else round(float(by_mask.mean()), 3),
        "follows_mask": follows, "shift": None, "id_shift": None, "wrong_from": None, "wrong_to": None, "elsewhere": 0,
    }  # fmt: skip
    if not isinstance(best, Unknown):
        block = weakest_block(cosines[best], chance)
        if block is not None:
            found |= _of_block(pair, rows, cosines[best], best, block, chance)
    elif lost and not follows and cosines:
        reading = 1 if 1 in cosines else next(iter(cosines))
        if not isinstance(vocab.confirmed, Unknown) and vocab.confirmed in cosines:
            reading = vocab.confirmed
        found |= _shifts(pair, reading, Block(0, pair.count), chance)
        if found["shift"] is None and found["id_shift"] is None:
            found["elsewhere"] = _elsewhere(pair, reading)
    return found


def _marks(pair: HeadPair, vocab: VocabMap) -> Ints | None:
    """The target ids of the draft ids if the rows stood in t2d's order; None when that is no other order."""
    import numpy as np

    mask = known_or(vocab.t2d, None)
    if mask is None:
        return None
    values = pair.integers(mask.name)
    if isinstance(values, Unknown):
        return None
    positions = np.flatnonzero(values).astype(np.int64)
    every = np.arange(pair.count, dtype=np.int64)
    if len(positions) != pair.count or positions[-1] >= pair.height or np.array_equal(positions, pair.ids(every, 1)):
        return None
    return positions


def _best(cosines: dict[int, Floats], orders: dict[int, Ints], chance: Chance) -> Known[int]:
    """The reading that is clearly above chance and clearly above all others where they differ."""
    import numpy as np

    if not cosines:
        return _NO_LIKENESS
    top = max(cosines, key=lambda k: float(cosines[k].mean()))
    if chance.score(cosines[top]) < CLEAR:
        return _NO_LIKENESS
    for other in cosines:
        apart = orders[other] != orders[top]
        if other == top:
            continue
        if apart.sum() < FEWEST // 2:
            return _NO_LIKENESS
        gain = (cosines[top] - cosines[other])[apart].astype(np.float64)
        if gain.mean() < (float(gain.std()) / len(gain) ** 0.5) * CLEAR:
            return _NO_LIKENESS
    return top


def _of_block(
    pair: HeadPair, rows: Ints, cosines: Floats, reading: int, block: Block, chance: Chance
) -> dict[str, object]:
    """From which row to which the block goes, and how it is shifted."""
    import numpy as np

    outside = np.concatenate([cosines[: block.first], cosines[block.last :]])
    exact = refined(pair, rows, block, reading, float(outside.mean()), chance)
    return {"wrong_from": exact.first, "wrong_to": exact.last, **_shifts(pair, reading, exact, chance)}


def _shifts(pair: HeadPair, reading: int, block: Block, chance: Chance) -> dict[str, object]:
    by_rows = row_shift(pair, reading, block, chance)
    return {"shift": by_rows, "id_shift": None if by_rows is not None else id_shift(pair, reading, block, chance)}


def _elsewhere(pair: HeadPair, reading: int) -> int:
    """Rows of a wide sample that are those of other mapped tokens; 0 for fewer than a handful, which prove nothing.

    In a head whose rows were permuted, n sampled rows of D meet their own tokens about n²/D times among n mapped ones.
    """
    rows = pair.sample(WIDE_SAMPLE)
    cross = pair.draft(rows) @ pair.target(pair.ids(rows, reading)).T
    pairs = own_pairs(cross, Chance.of(cross))
    return pairs if pairs >= _PAIRS else 0
