"""The sum of token counts, with the bounds that keep a wrong file from being taken for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["COUNT_LIMIT", "ID_LIMIT", "Tally"]

ID_LIMIT = 2**24
"""Token ids are below this; the largest vocabularies of today have some 2**18 ids."""

COUNT_LIMIT = 2**53
"""One count is at most this: whole numbers beyond it are not exact in the floats that some tools save."""

_TOTAL_LIMIT = 2**62


class Tally:
    """Counts by token id, added up from one file or several. `name` is what errors call the file at hand."""

    def __init__(self, name: str) -> None:
        import numpy as np

        self.name = name
        self._counts: npt.NDArray[np.int64] = np.zeros(1024, dtype=np.int64)
        self._length = 0
        self._total = 0

    def refuse(self, problem: str) -> CannotExamineError:
        """The error that `problem` (the end of a sentence) is with this file."""
        return CannotExamineError(f"--token-counts {show(self.name)}: {problem}")

    def add_ids(self, ids: npt.NDArray[Any]) -> None:
        """Count token ids: a one-dimensional array of any integer type. Raises `CannotExamineError`."""
        import numpy as np

        if not len(ids):
            return
        self._check_id(int(ids.min()))
        self._check_id(int(ids.max()))
        self.add_counts(np.bincount(ids.astype(np.int64, copy=False)))

    def add_counts(self, counts: npt.NDArray[Any]) -> None:
        """Add `counts[i]` to the count of token `i`: whole numbers of any numeric type. Raises `CannotExamineError`."""
        import numpy as np

        if counts.ndim != 1 or counts.dtype.kind not in "iuf":
            shape = "×".join(str(n) for n in counts.shape)
            held = f"{show(counts.dtype)} of shape {shape or 'one value'}"
            raise self.refuse(f"holds {held}, not one count for each token")
        if len(counts) > ID_LIMIT:
            raise self.refuse(f"holds {len(counts)} counts; no vocabulary has more than {ID_LIMIT} tokens")
        if not len(counts):
            return
        if counts.dtype.kind == "f" and not bool(np.all(np.isfinite(counts) & (counts == np.floor(counts)))):
            raise self.refuse("holds numbers that are not whole; shares and probabilities are no counts")
        for extreme in (counts.min(), counts.max()):
            self._check_count(int(np.argmax(counts == extreme)), int(extreme))
        whole = counts.astype(np.int64, copy=False)
        # Python integers where the sum of many large counts could leave 64 bits.
        near = len(whole) * int(whole.max()) < _TOTAL_LIMIT
        self._grow(len(whole), int(whole.sum()) if near else sum(int(n) for n in whole))
        self._counts[: len(whole)] += whole

    def add_pair(self, token: object, count: object) -> None:
        """Add one count: an id (a number, or its text as JSON keys are) and a whole number.

        Raises `CannotExamineError`.
        """
        if isinstance(token, str) and token.isascii() and token.isdecimal() and len(token) < 10:
            token = int(token)
        if isinstance(token, bool) or not isinstance(token, int):
            raise self.refuse(f"{show(repr(token), 60)} is no token id; counts are for ids, not for texts")
        self._check_id(token)
        if isinstance(count, float) and count.is_integer():
            count = int(count)
        if isinstance(count, bool) or not isinstance(count, int):
            raise self.refuse(f"the count of token {token} is {show(repr(count), 60)}, which is no whole number")
        self._check_count(token, count)
        self._grow(token + 1, count)
        self._counts[token] += count

    def counts(self) -> npt.NDArray[np.int64]:
        """The counts, int64, shape [largest id that was named + 1]. Raises `CannotExamineError` when all are zero."""
        if not self._total:
            raise self.refuse("counts no token at all")
        counts: npt.NDArray[np.int64] = self._counts[: self._length].copy()
        return counts

    def _grow(self, length: int, more: int) -> None:
        import numpy as np

        self._total += more
        if self._total > _TOTAL_LIMIT:
            raise self.refuse("its counts add up to more than any text has")
        if length > len(self._counts):
            grown = np.zeros(max(length, min(2 * len(self._counts), ID_LIMIT)), dtype=np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown
        self._length = max(self._length, length)

    def _check_id(self, token: int) -> None:
        if not 0 <= token < ID_LIMIT:
            raise self.refuse(f"{show(token, 40)} is no token id: ids are from 0 to {ID_LIMIT - 1}")

    def _check_count(self, token: int, count: int) -> None:
        if not 0 <= count <= COUNT_LIMIT:
            raise self.refuse(f"the count of token {token} is {show(count, 40)}, which is no count")
