"""Maps of every kind, each with the set of readings that fit it, found by plain Python sets and nothing of ours."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

__all__ = ["VOCAB", "Generated", "cases", "fitting", "maps"]

SIZES = (300, 512, 1000, 4096, 32000, 151936, 262144)


@dataclass(frozen=True)
class Generated:
    """One map: the stored values, the marks of t2d by length (None without t2d), the size of the vocabulary, and what
    is known of it by its making. `kind` is the state it was brought into, `right` whether engines serve it as trained.
    """

    name: str
    kind: str
    stored: list[int]
    mask: list[bool] | None
    size: int
    right: bool
    verdicts: frozenset[str]
    order: str | None = None
    padding: int = 0
    fits: frozenset[int] = field(default_factory=frozenset)


def fitting(stored: list[int], mask: list[bool] | None, size: int) -> frozenset[int]:
    """The readings that fit, by brute force: the one (or, where all are one, those) that t2d bears out, else all whose
    ids are different and inside the vocabulary."""
    ids = {k: [v + k * i for i, v in enumerate(stored)] for k in (0, 1, 2)}
    if mask is not None:
        marked = {i for i, m in enumerate(mask) if m}
        borne = {k for k in ids if marked and len(ids[k]) == len(marked) and set(ids[k]) == marked}
        if borne:
            return frozenset(borne)
    return frozenset(k for k in ids if len(set(ids[k])) == len(ids[k]) and all(0 <= t < size for t in ids[k]))


def _targets(chance: random.Random, size: int, count: int, order: str) -> list[int]:
    """Frequent ids of a vocabulary: the first few (special tokens), the rest anywhere, the very last one too."""
    first = list(range(min(16, count // 4)))
    rest = chance.sample(range(len(first), size - 1), count - len(first) - 1)
    targets = [*first, *rest, size - 1]
    if order == "frequency":
        chance.shuffle(targets)
        return targets
    return sorted(targets)


def _marks(targets: list[int], length: int) -> list[bool]:
    chosen = set(targets)
    return [i in chosen for i in range(length)]


def _one(
    name: str,
    kind: str,
    stored: list[int],
    mask: list[bool] | None,
    size: int,
    verdicts: set[str],
    right: bool = False,
    order: str | None = None,
    padding: int = 0,
    fits: set[int] | None = None,
) -> Generated:
    found = fitting(stored, mask, max(size, len(mask or ()))) if fits is None else frozenset(fits)
    return Generated(name, kind, stored, mask, size, right, frozenset(verdicts), order, padding, found)


def cases() -> Iterator[Generated]:
    """About five hundred maps, the same in every run."""
    chance = random.Random(20260101)
    for size in SIZES:
        for order in ("ascending", "frequency"):
            for count in sorted({64, size // 8, min(32000, size // 3)}):
                yield from _of_one_size(chance, size, count, order)
    yield from _small_and_regular()


def _of_one_size(chance: random.Random, size: int, count: int, order: str) -> Iterator[Generated]:
    targets = _targets(chance, size, count, order)
    right = [t - i for i, t in enumerate(targets)]
    twice = [t - 2 * i for i, t in enumerate(targets)]
    mask = _marks(targets, size)
    other = _marks(_targets(chance, size, count, "ascending"), size)
    label = f"{order}-{count}-of-{size}"
    for word, t2d in (("with-t2d", mask), ("without-t2d", None), ("padded-t2d", [*mask, *[False] * 64])):
        at = f"{label}-{word}"
        yield _one(f"right-{at}", "right", right, t2d, size, {"right"}, right=True, order=order)
        # Without t2d a thin map of ids with its last entry out of range may as well be one of offsets with one entry
        # damaged; and offsets may fit a small map by chance, which is then how engines and this tool read it.
        thin = {"damaged"} if t2d is None and count * 100 < size else set()
        yield _one(f"absolute-{at}", "absolute", targets, t2d, size, {"absolute"} | thin, order=order)
        chances = set() if t2d is not None else {"right", "open"}
        yield _one(f"twice-{at}", "offset_twice", twice, t2d, size, {"offset_twice"} | chances, order=order)
    yield _one(f"stale-{label}", "stale_t2d", right, other, size, {"stale_t2d"})
    yield _one(f"empty-t2d-{label}", "stale_t2d", right, [False] * size, size, {"stale_t2d"})
    for word, t2d in (("with-t2d", mask), ("without-t2d", None)):
        spot = count // 2
        again = [*right[:spot], right[spot - 1] - 1, *right[spot + 1 :]]
        yield _one(f"repeated-{label}-{word}", "repeated", again, t2d, size, {"damaged"})
        far = [*right[:spot], size + 5 - spot, *right[spot + 1 :]]
        yield _one(f"outside-{label}-{word}", "outside", far, t2d, size, {"damaged"})
    if order == "ascending":
        zeros = [0] * count
        yield _one(f"never-loaded-{label}", "zeros", zeros, [True] * size, size, {"zeros_never_loaded"})
        first = _marks(list(range(count)), size)
        yield _one(f"first-ids-{label}", "zeros", zeros, first, size, {"zeros_first"}, right=True)
        yield _one(f"zeros-lost-{label}", "zeros", zeros, mask, size, {"zeros_lost"})
        yield _one(f"zeros-alone-{label}", "zeros", zeros, None, size, {"zeros_undecided"})
    yield from _filled(targets, mask, size, order, label)
    if size <= 4096 and order == "ascending" and count > 64:
        yield _one(f"identity-{size}-{count}", "identity", [0] * size, [True] * size, size, {"identity"}, right=True)


def _filled(targets: list[int], mask: list[bool], size: int, order: str, label: str) -> Iterator[Generated]:
    """Right maps that are filled up to a multiple of 64 with the last id, the last offset, or the offset 0."""
    real = len(targets) // 64 * 64 - 3
    if real < 64:
        return
    kept = targets[:real]
    marks = _marks(kept, size)
    for how in ("id", "offset", "zero"):
        tail = range(real, real + 3)
        right = [t - i for i, t in enumerate(kept)]
        fill = {"id": [kept[-1] - i for i in tail], "offset": [right[-1]] * 3, "zero": [0] * 3}[how]
        if any(not 0 <= fill[i - real] + i < size for i in tail):
            continue
        stored = [*right, *fill]
        yield _one(
            f"filled-with-{how}-{label}", "padded", stored, marks, size, {"right"}, right=True, order=order, padding=3,
            fits={1},
        )  # fmt: skip
    assert len(mask) == size


def _small_and_regular() -> Iterator[Generated]:
    anything = {"right", "absolute", "offset_twice", "open", "damaged", "stale_t2d"}
    yield _one("no-entry", "tiny", [], None, 300, {"empty"})
    yield _one("no-entry-with-t2d", "tiny", [], [False] * 300, 300, {"empty"})
    for value in (0, 1, 299):
        yield _one(f"one-entry-{value}", "tiny", [value], None, 300, {"right"}, right=True)
        marks = _marks([value], 300)
        yield _one(f"one-entry-{value}-t2d", "tiny", [value], marks, 300, {"right"}, right=True, fits={0, 1, 2})
    yield _one("one-entry-outside", "tiny", [300], None, 300, {"damaged"})
    yield _one("two-zeros", "tiny", [0, 0], None, 300, {"zeros_undecided"})
    for first in (0, 3, 250):
        for second in (0, 1, 5, 297, 299):
            for k in (0, 1, 2):
                ids = [first, second + k]
                marks = _marks(ids, 300) if ids[0] != ids[1] and ids[1] < 300 else None
                stored = [first, second]
                if any(stored):
                    yield _one(f"two-{first}-{second}-{k}", "tiny", stored, marks, 300, anything)
                    yield _one(f"two-{first}-{second}-{k}-alone", "tiny", stored, None, 300, anything)
    for step in (2, 3, 5):
        ids = [step * i for i in range(60)]
        for k in (0, 1, 2):
            stored = [t - k * i for i, t in enumerate(ids)]
            if not any(stored):
                continue
            wanted = {0: "absolute", 1: "right", 2: "offset_twice"}[k]
            marks = _marks(ids, 400)
            yield _one(f"every-{step}-read-{k}", "regular", stored, marks, 400, {wanted}, right=k == 1)
            yield _one(f"every-{step}-read-{k}-alone", "regular", stored, None, 400, anything)
    falling = [59 - i for i in range(60)]
    yield _one("falling", "regular", falling, None, 300, {"open"})


VOCAB = 1000


@st.composite
def maps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray | None]:
    """Distinct target ids of a vocabulary of 1000 in any order, and the mask of them or none."""
    count = draw(st.integers(2, 120))
    targets = draw(st.lists(st.integers(0, VOCAB - 1), min_size=count, max_size=count, unique=True))
    if draw(st.booleans()):
        targets.sort()
    mask = np.zeros(VOCAB, dtype=bool)
    mask[targets] = True
    return np.array(targets, dtype=np.int64), mask if draw(st.booleans()) else None
