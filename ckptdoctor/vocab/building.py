"""Which target ids a draft vocabulary holds: the most frequent ones, and those that it must not lack.

SpecForge (`process_token_dict_to_mappings`) and speculators (`build_vocab_mappings_from_distribution`) take the most
frequent ids and sort them; so does this, with a forced set first and ties by id.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import plural, show

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ckptdoctor.tokencounts.token_counts import TokenCounts

    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

__all__ = ["ORDERS", "build_map", "counts_of_vocabulary", "offsets_and_mask"]

ORDERS = ("ascending", "frequency")
"""Ascending ids (SpecForge, speculators and the EAGLE reference read and write these), or the most frequent first."""


def build_map(
    counts: IntArray,
    size: int,
    forced: Collection[int] = (),
    *,
    vocabulary: int | None = None,
    order: str = "ascending",
) -> IntArray:
    """The `size` target ids of a draft vocabulary: int64, shape [size].

    `counts` (shape [n], n up to the vocabulary) says how often each id occurs; ids beyond it occur never. All of
    `forced` are in, the rest are the most frequent; of two that are as frequent the lower id is taken. Raises
    `UsageError` for a size below that of the forced set or above the vocabulary (`vocabulary`, else n).
    """
    import numpy as np

    if order not in ORDERS:
        raise UsageError(f"no order '{show(order)}'; there are {' and '.join(ORDERS)}")
    width = len(counts) if vocabulary is None else vocabulary
    wanted = np.unique(np.asarray(sorted(set(forced)), dtype=np.int64))
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= width):
        wrong = int(wanted[0] if wanted[0] < 0 else wanted[-1])
        raise UsageError(f"id {wrong} cannot be forced: the vocabulary has the ids 0 to {width - 1}")
    if not 1 <= size <= width:
        raise UsageError(f"a draft vocabulary of {size} ids: the target's has {width}")
    if size < len(wanted):
        raise UsageError(f"a draft vocabulary of {size} ids has no room for the {len(wanted)} that it must hold")
    full = np.zeros(width, dtype=np.int64)
    full[: min(len(counts), width)] = counts[:width]
    # A stable sort of the falling counts leaves ids of the same count in ascending order.
    ranked = np.argsort(-full, kind="stable")
    chosen = np.zeros(width, dtype=np.bool_)
    chosen[wanted] = True
    chosen[ranked[~chosen[ranked]][: size - len(wanted)]] = True
    found = ranked[chosen[ranked]] if order == "frequency" else np.flatnonzero(chosen)
    return found.astype(np.int64)


def offsets_and_mask(ids: IntArray, vocabulary: int) -> tuple[IntArray, BoolArray]:
    """d2t (int64 offsets, shape [D]: target id minus draft id) and t2d (bool, shape [vocabulary]) of `ids`."""
    import numpy as np

    mask = np.zeros(vocabulary, dtype=np.bool_)
    mask[ids] = True
    return ids - np.arange(len(ids), dtype=np.int64), mask


def counts_of_vocabulary(counts: TokenCounts, vocabulary: int) -> IntArray:
    """The counts of all `vocabulary` ids, int64; ids that the file does not reach occur never.

    Raises `CannotExamineError` for counts of another vocabulary (an id beyond this one occurs) and for none at all.
    """
    import numpy as np

    values = counts.counts
    beyond = np.flatnonzero(values[vocabulary:])
    if len(beyond):
        last = int(beyond[-1]) + vocabulary
        raise CannotExamineError(
            f"{show(counts.source)}: counts of another vocabulary: id {last} occurs, and the target has the ids 0 to "
            f"{vocabulary - 1} ({plural(len(beyond), 'id')} beyond)"
        )
    if len(values) and int(values.min()) < 0:
        raise CannotExamineError(f"{show(counts.source)}: counts below zero")
    if not values.any():
        raise CannotExamineError(f"{show(counts.source)}: no token occurs, so there is nothing to choose by")
    full = np.zeros(vocabulary, dtype=np.int64)
    full[: min(len(values), vocabulary)] = values[:vocabulary]
    return full
