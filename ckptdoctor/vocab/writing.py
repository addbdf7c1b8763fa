"""`ckptdoctor vocab build`: a new draft vocabulary as files: d2t, t2d, the rows of the target's head, and why.

The folder appears whole or not at all, and only what was read in the target is copied into it, never computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint.folder import locate
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.facts.target import Target, read_target
from ckptdoctor.facts.target_weights import TargetWeights, find_target_weights
from ckptdoctor.facts.tokenizer.token_texts import read_token_texts
from ckptdoctor.publish.header import Slot, container_pieces
from ckptdoctor.publish.pieces import Literal, OutputFile, Piece, Range
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.writing import write_files
from ckptdoctor.shapes import encode
from ckptdoctor.text import listing, show
from ckptdoctor.tokencounts.token_counts import read_token_counts
from ckptdoctor.unknown import Unknown
from ckptdoctor.vocab import document
from ckptdoctor.vocab.building import build_map, counts_of_vocabulary, offsets_and_mask
from ckptdoctor.vocab.forced import Group, forced_groups
from ckptdoctor.vocab.forms import numpy_file, torch_file

if TYPE_CHECKING:
    from ckptdoctor.checkpoint import TensorInfo
    from ckptdoctor.vocab.building import IntArray

__all__ = ["ALSO", "Built", "Head", "build", "built_data"]

ALSO = ("specforge", "speculators")
"""Trainers that take a map in a form of their own: vocab_mapping.pt (torch), d2t.npy and t2d.npy."""

HEAD = "lm_head.weight"


@dataclass(frozen=True)
class Head:
    """The rows of the target's head: `rows` of `width` values each, or `left_out`: why there are none."""

    rows: int = 0
    width: int = 0
    dtype: str = ""
    source: str = ""
    left_out: str | None = None


@dataclass(frozen=True)
class Built:
    """What was written to `out` (None: would be).

    `covered` of `total` positions are in the map; `best` would be without the forced ids. `added` are the forced ids
    that the counts alone would not have taken; `ids` is int64, shape [size], in the order of the map. `counts` are
    source, kind and total of the token counts, `files` the names and bytes of the new files.
    """

    out: Path | None
    ids: IntArray
    vocabulary: int
    order: str
    counts: tuple[str, str, int]
    target: str
    groups: tuple[Group, ...]
    added: tuple[int, ...]
    covered: int
    total: int
    best: int
    head: Head
    files: tuple[tuple[str, int], ...] = ()

    @property
    def size(self) -> int:
        """Ids of the draft vocabulary."""
        return len(self.ids)

    @property
    def share(self) -> float:
        """The share of all positions that the draft can propose, in [0, 1]."""
        return self.covered / self.total


def build(
    token_counts: str | Path,
    size: int,
    target: str | Path,
    out: str | Path | None,
    *,
    force_ids: Sequence[int] = (),
    order: str = "ascending",
    also: Sequence[str] = (),
    progress: Callable[[int], None] = lambda _done: None,
) -> Built:
    """Choose `size` of the target's ids by `token_counts` and write the map into the new folder `out`.

    In: the most frequent ids, and whatever they are all special tokens that a chat writes, all end tokens, byte tokens
    and digits, and `force_ids`. `order` is `ascending` or `frequency`. `also` names trainers (`ALSO`) whose own form is
    written too. `progress` is told the bytes written since it was last called. Raises `UsageError` for a size or ids
    that do not fit, `CannotExamineError` for files that cannot be read, and `CannotWriteError`. Without `out` nothing
    is written, and the answer is what would be.
    """
    root = locate(str(target))[0]
    place = None if out is None else check_out(root, str(out))
    if unknown := [name for name in also if name not in ALSO]:
        raise UsageError(f"no form for '{show(unknown[0])}'; there are those of {listing(ALSO)}")
    described = read_target(str(target))
    weights = find_target_weights(str(target)) if described.root is not None else None
    vocabulary = _vocabulary(described, weights)
    tokenizer = root / "tokenizer.json"
    counts = read_token_counts(str(token_counts), tokenizer if tokenizer.is_file() else None)
    full = counts_of_vocabulary(counts, vocabulary)
    groups = forced_groups(described, root, read_token_texts(root), vocabulary, force_ids)
    forced = {i for group in groups for i in group.ids}
    _check_size(size, vocabulary, groups)
    ids = build_map(full, size, forced, vocabulary=vocabulary, order=order)
    free = build_map(full, size, vocabulary=vocabulary)
    source, head = _head(described, weights, ids)
    built = Built(
        out=place, ids=ids, vocabulary=vocabulary, order=order, counts=(counts.source, counts.kind, counts.total),
        target=str(target), groups=groups, added=tuple(sorted(forced - set(free.tolist()))),
        covered=_sum(full[ids]), total=_sum(full), best=_sum(full[free]), head=head,
    )  # fmt: skip
    files = _files(built, weights, source, also)
    built = Built(**{**built.__dict__, "files": tuple((f.name, f.size) for f in files)})
    if place is not None:
        with Staging(place) as staging:
            write_files(files, staging.root, progress, place=place)
            staging.publish(staging.root)
    return built


def built_data(built: Built) -> dict[str, Any]:
    """What vocab.json and `build --format json` say: what was chosen, and why."""
    return encode(document.Built, built)


def _vocabulary(target: Target, weights: TargetWeights | None) -> int:
    if not isinstance(target.vocab_size, Unknown):
        return target.vocab_size
    matrix = None if weights is None else weights.head or weights.embedding
    if matrix is None:
        raise CannotExamineError(f"--target {show(target.path)}: its config gives no vocab_size")
    return matrix.shape[0]


def _check_size(size: int, vocabulary: int, groups: Sequence[Group]) -> None:
    """Says which groups a size is too small for. Raises `UsageError`."""
    needed = sum(len(group.ids) for group in groups)
    if size > vocabulary:
        raise UsageError(f"--size {size}: the target's vocabulary has {vocabulary} ids")
    if size < needed:
        told = [f"{len(g.ids)} {g.name}" for g in groups if g.ids]
        raise UsageError(f"--size {size}: {needed} ids must be in it ({listing(told, 8)})")


def _sum(values: IntArray) -> int:
    return sum(values.tolist())  # Python integers: counts may sum to more than 64 bits


def _head(target: Target, weights: TargetWeights | None, ids: IntArray) -> tuple[TensorInfo | None, Head]:
    """Where the rows come from, and what is told of them."""
    if weights is None:
        return None, Head(left_out="the target's weights are not at hand (its config alone, or no safetensors)")
    source = weights.head
    if source is None:
        if target.is_quantised:
            return None, Head(left_out="the target is quantised and stores no head in BF16, F16 or F32")
        return None, Head(left_out="the target stores no head in BF16, F16 or F32")
    if weights.place(source) is None or source.start is None or source.end is None:
        return None, Head(left_out=f"{show(source.name)} of the target cannot be read")
    if source.shape[0] <= int(ids.max()):
        return None, Head(left_out=f"{show(source.name)} of the target has {source.shape[0]} rows, too few for the map")
    return source, Head(len(ids), source.shape[1], source.dtype, source.name)


def _files(
    built: Built, weights: TargetWeights | None, source: TensorInfo | None, also: Sequence[str]
) -> tuple[OutputFile, ...]:
    offsets, mask = offsets_and_mask(built.ids, built.vocabulary)
    slots = [Slot("d2t", "I64", (built.size,), (Literal(offsets.astype("<i8").tobytes()),))]
    if source is not None and weights is not None:
        path = weights.place(source)
        assert path is not None, "looked at before"
        rows = tuple(_rows(source, path, built.ids.tolist()))
        slots.append(Slot(HEAD, source.dtype, (built.size, source.shape[1]), rows))
    slots.append(Slot("t2d", "BOOL", (built.vocabulary,), (Literal(mask.tobytes()),)))
    text = json.dumps(built_data(built), indent=2, ensure_ascii=True) + "\n"
    files = [
        OutputFile("model.safetensors", container_pieces(slots, {"format": "pt"})),
        OutputFile("vocab.json", (Literal(text.encode()),)),
    ]
    if "specforge" in also:
        files.append(OutputFile("vocab_mapping.pt", (torch_file(offsets, mask),)))
    if "speculators" in also:
        files += [OutputFile("d2t.npy", (numpy_file(offsets),)), OutputFile("t2d.npy", (numpy_file(mask),))]
    return tuple(files)


def _rows(source: TensorInfo, path: Path, ids: Sequence[int]) -> Iterator[Piece]:
    """The rows `ids` of the matrix, neighbours as one range."""
    start, end = source.start or 0, source.end or 0
    width = (end - start) // source.shape[0]
    first = last = -1
    for row in ids:
        if row != last:
            if last > first:
                yield Range(path, start + first * width, start + last * width)
            first = row
        last = row + 1
    if last > first:
        yield Range(path, start + first * width, start + last * width)
