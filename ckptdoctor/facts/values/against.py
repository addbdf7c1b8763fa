"""A draft against another copy of it (before conversion, the last release), or against the model it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.values.changes import Against, Change, Group, Lost
from ckptdoctor.facts.values.pairs import Likeness, likeness
from ckptdoctor.facts.values.reading import Reader, place_of
from ckptdoctor.facts.values.roles import TRUNK, Weight
from ckptdoctor.facts.values.statistics import Statistics, measure
from ckptdoctor.unknown import Unknown

__all__ = ["against_of", "pair_names"]

_CANDIDATES = 8
_MOST = 0.8
"""Share of the weights of other parts that have to have moved before one that did not is told."""
_LEARNED = ("fc", "matrix", "norm", "head", "zero_start")


def pair_names(weights: Mapping[str, Weight], old: Mapping[str, Weight]) -> dict[str, Weight]:
    """Canonical name → the weight of the other copy that has the same name and shape."""
    return {
        n: old[n] for n, w in weights.items() if w.role != "skip" and n in old and old[n].info.shape == w.info.shape
    }


def against_of(
    checkpoint: Checkpoint,
    other: Checkpoint,
    weights: Mapping[str, Weight],
    old: Mapping[str, Weight],
    likenesses: Mapping[str, Likeness],
    measured: Mapping[str, Statistics],
    random: Iterable[str],
    words: Mapping[str, Any],
) -> Against:
    """What the comparison says. `likenesses` are those of `pair_names`; `random` the canonical names of weights that
    are still an initialiser's. Weights under other names are looked for by shape and the end of their name."""
    found = dict(likenesses)
    partners = {name: old[name] for name in found}
    reader, second = Reader(checkpoint), Reader(other)
    _by_content(checkpoint, other, weights, old, found, partners, reader, second, words)
    changes = tuple(_change(w, partners.get(n), found.get(n), n in old) for n, w in weights.items() if w.role != "skip")
    learned = [c for c in changes if c.role in _LEARNED]
    compared = [c for c in learned if c.kind not in ("new", "reshaped", "unread")]
    same = [c for c in compared if c.kind == "same"]
    moved = sorted((c for c in compared if c.kind == "changed" and c.moved is not None), key=lambda c: c.moved or 0.0)
    renamed = sum(c.old_name is not None and c.old_name != c.name for c in compared)
    kin = _kin(weights, old, partners)
    lost = _lost(weights, partners, found, measured, frozenset(random), other, second)
    missing = tuple(
        w.info.name
        for n, w in old.items()
        if kin and w.role in _LEARNED and n not in weights and w not in partners.values()
    )
    return Against(
        path=other.path,
        same_files=_same_files(checkpoint, other),
        learned=len(compared),
        unchanged=len(same),
        rounded=sum(c.kind == "rounded" for c in compared),
        changed=sum(c.kind in ("changed", "scaled", "permuted") for c in compared),
        nothing_changed=bool(compared) and not missing and all(c.kind in ("same", "rounded") for c in learned),
        converted=bool(renamed)
        or checkpoint.kind != other.kind
        or any(c.kind == "rounded" for c in compared)
        or any(name in checkpoint.names_in_folder() for name in words["receipts"]),
        renamed=renamed,
        stale_mtp=_stale_mtp(changes, weights, old),
        stale=_stale(compared) if kin and not lost else (),
        lost=lost,
        missing=missing,
        new=tuple(c.name for c in learned if c.kind == "new") if kin else (),
        reshaped=tuple(c for c in learned if c.kind == "reshaped") if kin else (),
        permuted=tuple(c for c in compared if c.kind == "permuted"),
        scaled=tuple(c for c in compared if c.kind == "scaled" and c.role != "norm"),
        lossy=tuple(c for c in compared if c.kind == "rounded" and not c.exact),
        map_changed=_map_changed(checkpoint, other),
        most_moved=moved[-1] if moved else None,
        least_moved=moved[0] if moved else None,
        changes=changes,
    )


def _change(weight: Weight, partner: Weight | None, like: Likeness | None, named: bool) -> Change:
    old = partner.info if partner is not None else None
    kind = like.kind if like is not None else "reshaped" if named else "new"
    return Change(
        name=weight.info.name, file=weight.info.file, old_name=old.name if old else None, role=weight.role,
        part=weight.part, mtp=weight.mtp, kind=kind, dtype=weight.info.dtype, old_dtype=old.dtype if old else None,
        cosine=like.cosine if like else None, moved=like.moved if like else None,
        factor=like.factor if like else 1.0, exact=like.exact if like else False,
    )  # fmt: skip


def _by_content(
    checkpoint: Checkpoint,
    other: Checkpoint,
    weights: Mapping[str, Weight],
    old: Mapping[str, Weight],
    found: dict[str, Likeness],
    partners: dict[str, Weight],
    reader: Reader,
    second: Reader,
    words: Mapping[str, Any],
) -> None:
    """Finds weights that stand under another name there: the same shape, end of the name and values."""
    taken = {w.canonical for w in partners.values()}
    free: dict[tuple[str, tuple[int, ...]], list[Weight]] = {}
    for weight in old.values():
        if weight.canonical not in taken and weight.role in _LEARNED:
            free.setdefault((_end(weight.canonical), weight.info.shape), []).append(weight)
    for name, weight in weights.items():
        if name in found or name in old or weight.role not in _LEARNED:
            continue
        for candidate in free.get((_end(name), weight.info.shape), ())[:_CANDIDATES]:
            like = likeness((checkpoint, weight.info, reader), (other, candidate.info, second), words["alike"])
            if like.kind in ("same", "rounded") and candidate not in partners.values():
                found[name], partners[name] = like, candidate
                break


def _end(name: str) -> str:
    """What names of one kind of weight have in common in most layouts: `q_proj.weight`."""
    return ".".join(name.split(".")[-2:])


def _kin(weights: Mapping[str, Weight], old: Mapping[str, Weight], partners: Mapping[str, Weight]) -> bool:
    """Whether the other copy is a draft (or model) of the same kind: most weights have a partner, and it is no larger
    than a few layers more."""
    mine = [n for n, w in weights.items() if w.role in _LEARNED]
    theirs = sum(w.role in _LEARNED for w in old.values())
    return bool(mine) and 2 * sum(n in partners for n in mine) >= len(mine) and theirs <= 3 * len(mine)


def _stale_mtp(changes: Sequence[Change], weights: Mapping[str, Weight], old: Mapping[str, Weight]) -> Group | None:
    """The weights of the heads for multi-token prediction, if all are the same while others of the model are not."""
    heads = [c for c in changes if c.mtp and c.role in _LEARNED]
    rest = [c for c in changes if not c.mtp and c.role in _LEARNED]
    if not heads or any(c.kind != "same" for c in heads):
        return None
    differ = any(c.kind in ("changed", "rounded", "scaled", "permuted", "reshaped", "new") for c in rest)
    gone = any(w.role in _LEARNED and not w.mtp and n not in weights for n, w in old.items())
    return Group("mtp", tuple(c.name for c in heads), len(heads), heads[0].file) if rest and (differ or gone) else None


def _stale(compared: Sequence[Change]) -> tuple[Group, ...]:
    """Layers of which no weight changed, while most weights of other parts did. The trunk counts by its fc."""
    groups: list[Group] = []
    for part in dict.fromkeys(c.part for c in compared):
        here = [c for c in compared if c.part == part and (part != TRUNK or c.role == "fc")]
        others = [c for c in compared if c.part != part]
        moved = sum(c.kind == "changed" for c in others)
        if (
            here
            and moved
            and moved >= _MOST * len(others)
            and not any(c.mtp for c in here)
            and all(c.kind == "same" for c in here)
        ):
            groups.append(Group(part, tuple(c.name for c in here), len(here), here[0].file))
    return tuple(groups)


def _lost(
    weights: Mapping[str, Weight],
    partners: Mapping[str, Weight],
    found: Mapping[str, Likeness],
    measured: Mapping[str, Statistics],
    random: frozenset[str],
    other: Checkpoint,
    reader: Reader,
) -> tuple[Lost, ...]:
    by_part: dict[tuple[str, str], list[tuple[Weight, float, str]]] = {}
    for name, partner in partners.items():
        seen = measured.get(name)
        if seen is None or weights[name].role not in (*_LEARNED, "embedding") or found[name].kind != "changed":
            continue
        empty = seen.all_zero and weights[name].role != "norm"
        if not empty and name not in random:
            continue
        there = measure(other, partner.info, reader, compare_rows=False)
        # Random numbers there as well: neither is trained, and nothing was lost.
        if there is None or there.all_zero or (not empty and _still_random(seen, there)):
            continue
        here = "zeros" if empty else "as an initialiser makes them"
        row = (weights[name], there.spread, partner.info.name)
        rows = by_part.setdefault((weights[name].part, here), [])
        rows.insert(len(rows) if weights[name].role == "norm" else sum(w.role != "norm" for w, _, _ in rows), row)
    return tuple(
        Lost(part, tuple(w.info.name for w, _, _ in rows), here, float(f"{rows[0][1]:.4g}"), rows[0][2],
             rows[0][0].info.file)
        for (part, here), rows in by_part.items()
    )  # fmt: skip


def _still_random(here: Statistics, there: Statistics) -> bool:
    """Whether the other copy's values are independent random numbers too, of the same spread."""
    pairs = ((here.row_scatter, there.row_scatter), (here.column_scatter, there.column_scatter))
    near = all(a is not None and b is not None and abs(a - b) < 0.5 for a, b in pairs)
    return near and abs(here.kurtosis - there.kurtosis) < 0.1 and abs(here.spread - there.spread) < 0.02 * here.spread


def _same_files(checkpoint: Checkpoint, other: Checkpoint) -> bool:
    """Whether both are the very same bytes on the disk."""
    names = [n for n in checkpoint.tensors if n in other.tensors]
    first = next(iter(names), None)
    if first is None:
        return False
    place = place_of(checkpoint, checkpoint.tensors[first])
    return place is not None and place == place_of(other, other.tensors[first])


def _map_changed(checkpoint: Checkpoint, other: Checkpoint) -> bool:
    import numpy as np

    def values(of: Checkpoint) -> Any:
        name = next((n for n in of.tensors if re.search(r"(^|\.)d2t$", n)), None)
        found = of.integers(name) if name is not None else None
        return None if isinstance(found, Unknown) else found

    mine, theirs = values(checkpoint), values(other)
    if mine is None or theirs is None:
        return (mine is None) != (theirs is None)
    return not np.array_equal(mine, theirs)
