"""How often each target token occurs: counts from the files that people have.

Tables of counts (`count_tables`): the frequency files of speculators (`token_freq.pt`: a dict {id: count}) and a
Counter as SpecForge and its relatives keep one, JSON, `.npy`. Text, as token ids or as it is written (`corpus`):
`.parquet`, `.arrow`, `.feather`, `.jsonl`, streamed. A folder or a pattern stands for its shards, added up.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import listing, show
from ckptdoctor.tokencounts.tally import Tally

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["TokenCounts", "read_token_counts"]

_TABLES = (".pt", ".pth", ".bin", ".json", ".npy")
_SHARDS = (".arrow", ".parquet", ".feather", ".jsonl")
_MOST_FILES = 10_000
# What the datasets library keeps beside the shards of a saved dataset: copies of the same rows.
_CACHES = ("cache-", "tmp")


@dataclass(frozen=True)
class TokenCounts:
    """Counts of target tokens. `counts` is int64 of shape [n]: `counts[i]` is how often id `i` occurs.

    n is at least the largest counted id + 1, and no more than 2**24. `source` is the path as it was named. `kind`
    says what it was: `specforge` (a Counter), `speculators` (a plain dict in a PyTorch file), `json`, `npy` (an array
    of counts), `ids` (token ids of a text) or `text`.
    """

    counts: npt.NDArray[np.int64]
    source: str
    kind: str

    @property
    def total(self) -> int:
        """Positions of the text: the sum of all counts, above zero."""
        return int(self.counts.sum())


def read_token_counts(path: str, tokenizer: Path | None = None) -> TokenCounts:
    """The counts in `path`: a file, a folder of shards, or a pattern such as `data/*.parquet`.

    `tokenizer` is the target's tokenizer.json, needed where the files hold text. Several files are added up. Raises
    `CannotExamineError` with one sentence for anything that holds no counts, ids or text of one kind.
    """
    files = count_files(path)
    tally, kinds = Tally(path), []
    for place in files:
        tally.name = path if len(files) == 1 else str(place)
        kinds.append(_reader(place, path)(place, tally, tokenizer))
    tally.name = path
    if len(set(kinds)) > 1:
        raise tally.refuse(f"its files are of several kinds ({listing(sorted(set(kinds)))}); name those of one kind")
    return TokenCounts(tally.counts(), path, kinds[0])


def _reader(place: Path, path: str) -> Callable[[Path, Tally, Path | None], str]:
    """The function that adds a file of this ending to a tally and says of which kind it was."""
    ending = place.suffix.lower()
    if ending in _TABLES:
        from ckptdoctor.tokencounts.count_tables import read_table

        return lambda where, tally, _: read_table(where, tally)
    if ending in _SHARDS:
        from ckptdoctor.tokencounts.corpus import read_corpus

        return read_corpus
    known = listing((*_TABLES, *_SHARDS), 20)
    raise CannotExamineError(f"--token-counts {show(path)}: the name of a file with counts or text ends in {known}")


def count_files(path: str) -> list[Path]:
    """The files that `path` stands for, in the order of their names. Raises `CannotExamineError`."""
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except (OSError, ValueError) as error:
        found = _matches(path) if glob.has_magic(path) else []
        if found:
            return found
        reason = "no such file or folder" if isinstance(error, FileNotFoundError) else "cannot be opened"
        raise CannotExamineError(f"--token-counts {show(path)}: {reason}") from None
    if stat.S_ISDIR(mode):
        return _shards(place, path)
    if stat.S_ISREG(mode):
        return [place]
    raise CannotExamineError(f"--token-counts {show(path)}: neither a file nor a folder")


def _matches(pattern: str) -> list[Path]:
    found = []
    try:
        for name in glob.iglob(pattern, recursive=True):  # noqa: PTH207  # a pattern may stand anywhere in it
            if Path(name).is_file():
                found.append(Path(name))
                if len(found) > _MOST_FILES:
                    break
    except (OSError, ValueError):
        return []
    return _few(sorted(found), pattern)


def _shards(folder: Path, path: str) -> list[Path]:
    """The counts that a trainer keeps in the folder of its data, else the shards of the one kind that is there."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file() and not entry.name.startswith(_CACHES):
                    names.append(entry.name)
                    if len(names) > _MOST_FILES:
                        break
    except OSError as error:
        raise CannotExamineError(f"--token-counts {show(path)}: cannot be read ({show(error.strerror)})") from None
    kept = [name for name in sorted(names) if name == "token_freq.pt" or name.endswith("_token_freq.pt")]
    if len(kept) == 1:
        return [folder / kept[0]]
    by_ending = {e: [folder / n for n in sorted(names) if n.lower().endswith(e)] for e in _SHARDS}
    there = {ending: files for ending, files in by_ending.items() if files}
    if len(there) == 1:
        return _few(next(iter(there.values())), path)
    if there:
        one = show(folder / f"*{next(iter(there))}")
        raise CannotExamineError(
            f"--token-counts {show(path)}: the folder holds files in {listing(there)}; name those of one kind: {one}"
        )
    raise CannotExamineError(
        f"--token-counts {show(path)}: the folder has neither a token_freq.pt nor files in {listing(_SHARDS)}"
    )


def _few(files: list[Path], path: str) -> list[Path]:
    if len(files) > _MOST_FILES:
        raise CannotExamineError(f"--token-counts {show(path)}: more than {_MOST_FILES} files")
    return files
