"""The MTP layer gets the number that follows the model's last layer, and num_hidden_layers counts the model's own.

SGLang and vLLM look for it at model.layers.num_hidden_layers; SGLang also at model.layers.0 where that is 1.
"""

from __future__ import annotations

from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.repair.edits import Edit, RenameTensor, SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Renames of the MTP layers alone, and the depth where it says something else.

    Beside the model's own layers the number is theirs; alone it is the target's depth, else what the config says.
    Refused where none of these is known.
    """
    mtp = case.facts.mtp
    if mtp is None or not mtp.is_mtp or mtp.layout not in ("layers", "mtp_layers", "mtp") or mtp.first is None:
        raise RefusedError("layout")
    depth = 0 if mtp.layout != "layers" else _depth(case, mtp)
    edits: list[Edit] = []
    for name, number, rest in _numbered(case, mtp):
        to = f"{name}{number - mtp.first + depth}.{rest}"
        if to != f"{name}{number}.{rest}":
            edits.append(RenameTensor(f"{name}{number}.{rest}", to))
    going = {e.name for e in edits if isinstance(e, RenameTensor)}
    for edit in edits:
        if isinstance(edit, RenameTensor) and edit.to in case.facts.tensors and edit.to not in going:
            raise RefusedError("collision", name=edit.name, other=edit.to)
    if mtp.layout == "layers" and mtp.depth != depth:
        writable(case)
        edits.append(SetConfig(mtp.depth_key or "num_hidden_layers", depth))
    if not edits:
        raise RefusedError("same")
    return Proposed(tuple(edits), subject="the number of the MTP layer")


def _depth(case: Case, mtp: MtpHeads) -> int:
    if mtp.whole:
        if mtp.trunk_depth is None:
            raise RefusedError("trunk")
        return mtp.trunk_depth
    target = case.facts.target
    if target is not None and not isinstance(target.num_layers, Unknown) and target.hidden_size == mtp.width:
        return target.num_layers
    if mtp.depth is not None and mtp.depth > 1:
        return mtp.depth
    if mtp.first:
        return mtp.first
    raise RefusedError("no_depth")


def _numbered(case: Case, mtp: MtpHeads) -> list[tuple[str, int, str]]:
    """The names of the MTP layers as what stands before the number, the number, and the rest."""
    stems = {"layers": "layers.", "mtp_layers": "mtp_layers.", "mtp": "mtp.layers."}
    stem = mtp.root + stems[mtp.layout]
    numbers = frozenset(mtp.indices)
    found = []
    for name in case.facts.tensors:
        number, dot, rest = name.removeprefix(stem).partition(".")
        if name.startswith(stem) and dot and number.isdecimal() and len(number) < 8 and int(number) in numbers:
            found.append((stem, int(number), rest))
    return found
