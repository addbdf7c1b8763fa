"""What the tests of single treatments share: drafts made in memory, changed by hand, written, and asked about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from builder.container import encode
from builder.dialects import make
from builder.draft import Draft, Tensor
from builder.values import bools, decode, floats, integers

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.examining import survey
from ckptdoctor.facts import read_target
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.edits import RenameTensor, SetConfig
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Case, Proposal, Refusal
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair
from ckptdoctor.repair.plan.proposing import proposed
from ckptdoctor.repair.receipt_reading import earlier_of
from ckptdoctor.serving.layers.provenance import provenance_of

__all__ = [
    "Draft",
    "Tensor",
    "answer",
    "bools",
    "decode",
    "draft_of",
    "floats",
    "integers",
    "map_of",
    "plan",
    "put",
    "refusal",
    "renames",
    "settings",
    "write",
]

ROOT = Path(__file__).resolve().parents[2]

Ints = npt.NDArray[np.int64]


def draft_of(dialect: str = "specforge-eagle3", **sizes: Any) -> Draft:
    """A healthy draft of `dialect`, in memory."""
    return make(dialect, sizes)


def write(draft: Draft, folder: Path) -> Path:
    """`draft` as a folder, with its target's config in `target/`."""
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / "model.safetensors", draft.tensors)
    (folder / "config.json").write_text(json.dumps(draft.config, indent=1), encoding="utf-8")
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "config.json").write_text(json.dumps(draft.target), encoding="utf-8")
    return folder


def put(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file with these tensors."""
    path.write_bytes(encode(tensors, {"format": "pt"}))


def map_of(draft: Draft, change: Callable[[Ints], npt.ArrayLike], dtype: str = "I64") -> None:
    """Store another d2t, made from the healthy offsets."""
    draft.tensors["d2t"] = integers(np.asarray(change(decode(draft.tensors["d2t"]).astype(np.int64))), dtype)


def plan(folder: Path, *engines: str, unsafe: bool = False, select: tuple[str, ...] = ()) -> RepairPlan:
    """The whole plan of a repair; `select` are treatments or rules."""
    options = Options(unsafe=unsafe, select=select, engines=tuple(chosen_engines(engines)))

    def wanted(p: Proposal) -> bool:
        return not select or p.treatment in select or bool(set(p.rules) & set(select))

    return plan_repair(open_checkpoint(str(folder)), read_target(str(folder / "target")), rulebook(), options, wanted)


def answer(
    folder: Path,
    rule: str,
    *engines: str,
    reads: bool = True,
    target: Path | None = None,
    trained_with: str | None = None,
) -> Proposal | str:
    """What is proposed for the first finding of `rule` in the draft as it is: a proposal, or the words of a refusal."""
    known = read_target(str(target or folder / "target"))
    chosen = chosen_engines(engines)
    said = provenance_of(trained_with)
    found = survey(open_checkpoint(str(folder)), known, rulebook(), chosen, provenance=said)
    finding = next(f for f in found.judgement.findings if f.rule == rule)
    releases = tuple((contract, release) for contract, release, _ in chosen)
    case = Case(found.checkpoint, found.facts, releases, found.plans, provenance=said, reads=reads)
    told = proposed(case, finding, earlier_of(found.checkpoint))
    assert told is not None
    return told.why if isinstance(told, Refusal) else told


def refusal(told: Proposal | str) -> str:
    """The words of a refusal, which `told` must be."""
    assert isinstance(told, str), told
    return told


def renames(told: Proposal | str) -> dict[str, str]:
    """The new name of each tensor that a proposal renames, which it must do and nothing else."""
    assert isinstance(told, Proposal), told
    assert all(isinstance(edit, RenameTensor) for edit in told.edits)
    return {edit.name: edit.to for edit in told.edits if isinstance(edit, RenameTensor)}


def settings(told: Proposal | str) -> dict[str, Any]:
    """What a proposal writes into config.json, by key: nothing else may be in it."""
    assert isinstance(told, Proposal), told
    assert all(isinstance(edit, SetConfig) and edit.file == "config.json" for edit in told.edits)
    return {edit.key: edit.value for edit in told.edits if isinstance(edit, SetConfig)}
