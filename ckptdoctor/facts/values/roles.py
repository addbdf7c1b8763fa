"""What each stored tensor is for, and to which part of the draft it belongs (rules/facts/values.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.naming.canonical import canonical_names

__all__ = ["TRUNK", "Weight", "weights_of", "zero_centred"]

TRUNK = "draft"
"""The part that is no layer: fc, norms and head of the draft itself."""


@dataclass(frozen=True)
class Weight:
    """A stored weight: its canonical name, what it is for, and the part it belongs to (`layers.0`, else `TRUNK`).

    `role` is `norm`, `fc`, `matrix`, `head`, `embedding`, `bias`, `state`, `zero_start` (a matrix that begins with
    zeros) or `skip` (no weight of the draft). `mtp`: it is one of a multi-token prediction head.
    """

    info: TensorInfo
    canonical: str
    role: str
    part: str
    mtp: bool


def weights_of(checkpoint: Checkpoint, known: Knowledge, *, tabled: bool) -> dict[str, Weight]:
    """The weights by canonical name, in stored order. `tabled` drafts may carry `model.` before their names."""
    words = known.words["values"]
    roles = [(row["role"], re.compile(row["name"])) for row in words["roles"]]
    parts = [re.compile(p) for p in words["parts"]]
    copies = [re.compile(p) for p in known.naming["target_copies"]]
    mtp = re.compile(words["mtp_names"])
    found: dict[str, Weight] = {}
    for name in canonical_names(checkpoint.tensors, known.naming, strip_model=tabled).values():
        info = checkpoint.tensors[name.stored]
        copied = any(p.search(name.stored) or p.search(name.canonical) for p in copies)
        role = "skip" if copied else _role(name.canonical, info, roles)
        part = next((m.group(1) for p in parts if (m := p.match(name.canonical))), TRUNK)
        weight = Weight(info, name.canonical, role, part, mtp.search(name.canonical) is not None)
        found.setdefault(name.canonical, weight)
    # DeepSeek and GLM keep the head as one more layer, of which only the entrance has names of its own.
    heads = {w.part for w in found.values() if w.mtp and w.part != TRUNK}
    return {n: replace(w, mtp=True) if w.part in heads else w for n, w in found.items()}


def _role(name: str, info: TensorInfo, roles: list[tuple[str, re.Pattern[str]]]) -> str:
    role = next((role for role, pattern in roles if pattern.search(name)), "state")
    if role in ("matrix", "fc", "head", "embedding", "zero_start") and len(info.shape) < 2:
        return "state"
    return "state" if role == "norm" and len(info.shape) != 1 else role


def zero_centred(model_types: Iterable[object], known: Knowledge) -> bool:
    """Whether one of these model types stores its norms as the distance from one. What is no text is none."""
    patterns = known.words["values"]["zero_centred_norms"]
    return any(re.search(p, kind) for kind in model_types if isinstance(kind, str) for p in patterns)
