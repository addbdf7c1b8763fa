"""A file that says nothing is left out of the copy. Generic: the rule says which, and when not to."""

from __future__ import annotations

from ckptdoctor.repair.edits import OmitFile
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]


def propose(case: Case, name: str, refuse: str | None = None, unless_tensors: tuple[str, ...] = ()) -> Proposed:
    """The file `name` left out. `refuse` names a refusal; so does a stored tensor whose name ends in one of
    `unless_tensors` (`stored`)."""
    if refuse is not None:
        raise RefusedError(refuse, name=name)
    if name not in case.checkpoint.names_in_folder() or name in case.checkpoint.files:
        raise RefusedError("absent", name=name)
    ends = tuple(unless_tensors)
    stored = next((tensor for tensor in case.checkpoint.tensors if ends and tensor.endswith(ends)), None)
    if stored is not None:
        raise RefusedError("stored", name=name, tensor=stored)
    return Proposed((OmitFile(name),), subject=name)
