"""What differs between two copies of a draft: tensors, groups of them, and what is lost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Against", "Change", "Group", "Lost"]


@dataclass(frozen=True)
class Change:
    """A weight of the draft and what became of it. `kind` is that of `Likeness`, `reshaped` (another shape there) or
    `new` (not there). `old_name` is its name in the other copy."""

    name: str
    file: str
    old_name: str | None
    role: str
    part: str
    mtp: bool
    kind: str
    dtype: str
    old_dtype: str | None
    cosine: float | None = None
    moved: float | None = None
    factor: float = 1.0
    exact: bool = False


@dataclass(frozen=True)
class Group:
    """Weights of one part that are alike in something: `names` of the `of` that were compared."""

    part: str
    names: tuple[str, ...]
    of: int
    file: str


@dataclass(frozen=True)
class Lost:
    """Weights of a part that are as an initialiser makes them (or zeros) here, and are not in the other copy.

    `here` says what they are here, `there` the spread that the first of them has in the other copy.
    """

    part: str
    names: tuple[str, ...]
    here: str
    there: float
    old_name: str
    file: str


@dataclass(frozen=True)
class Against:
    """The draft against the other copy.

    `path` is that copy, `same_files` says that it is this very one. `learned` counts the weights that training changes
    (all but embeddings, biases and fixed states) of which both copies have one; `unchanged` of them are the same to the
    last bit, `rounded` but for rounding, `changed` differ. `nothing_changed`: all are unchanged and there is no other;
    `converted`: names, dtypes or the kind of file are others, or a receipt of a repair lies beside, so that a
    conversion explains why. `stale_mtp` are the heads for multi-token prediction that are unchanged while the rest of
    the model is not; `stale` parts that are unchanged while the others are not. `missing` are weights of the other copy
    that are not here (only where the two are of one kind). `map_changed`: d2t differs.
    """

    path: str
    same_files: bool
    learned: int
    unchanged: int
    rounded: int
    changed: int
    nothing_changed: bool
    converted: bool
    renamed: int
    stale_mtp: Group | None
    stale: tuple[Group, ...]
    lost: tuple[Lost, ...]
    missing: tuple[str, ...]
    new: tuple[str, ...]
    reshaped: tuple[Change, ...]
    permuted: tuple[Change, ...]
    scaled: tuple[Change, ...]
    lossy: tuple[Change, ...]
    map_changed: bool
    most_moved: Change | None
    least_moved: Change | None
    changes: tuple[Change, ...]
