"""A tensor that a second file stores again, with the same bytes, is left out of that file.

Engines go through the files one after the other and the later copy stays, so with equal bytes the choice does not
matter. The copy that other readers of the checkpoint see first is kept.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import DropTensor, Edit, RewriteIndex
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.alike import alike
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case, file: str) -> Proposed:
    """Each tensor of `file` that an earlier file has already, left out of `file`; an index is then written anew.

    Refused when two copies differ by a byte: the newer export is not told by the files.
    """
    checkpoint = case.checkpoint
    copies = [info for info in checkpoint.second_copies if info.file == file]
    if not copies or checkpoint.kind != "safetensors":
        raise RefusedError("uncompared", file=file)
    for second in copies:
        first = checkpoint.tensors.get(second.name)
        if first is None:  # renamed by then: the second copies have to go before
            raise RefusedError("uncompared", file=file)
        if case.reads:
            same = alike(checkpoint, first, second, case.most_read)
            if isinstance(same, Unknown):
                raise RefusedError("uncompared", file=file)
            if not same:
                raise RefusedError("differ", name=second.name, first=first.file, second=file)
    edits: list[Edit] = [DropTensor(second.name, file) for second in copies]
    if checkpoint.index_file is not None:
        edits.append(RewriteIndex(checkpoint.index_file))
    return Proposed(tuple(edits), subject=file)
