"""The tensors of PyTorch files are written as safetensors, under the same names and with the same bytes.

What else a training state holds (the optimiser, counters) is left out; the rule that proposes it says so.
"""

from __future__ import annotations

from ckptdoctor.checkpoint.container import DTYPE_BITS
from ckptdoctor.publish.shards import INDEX_NAME, lost_member, safetensors_name
from ckptdoctor.repair.edits import ConvertPickle, DropTensor, Edit, OmitFile, RewriteIndex
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]

_MISSING = ("index_missing_shard", "shard_missing", "index_bad_path")


def propose(case: Case) -> Proposed:
    """Every PyTorch file that holds the weights as a safetensors file, and an index when there are several.

    Refused when a file is damaged or missing, when a name stands twice, when it is not sure which tensors of a file are
    the draft, when safetensors cannot hold a tensor, and when a file of the new name is there.
    """
    checkpoint = case.checkpoint
    if checkpoint.kind != "pickle":
        raise RefusedError("none")
    missing = next((f.other or f.file for f in checkpoint.faults if f.kind in _MISSING), lost_member(checkpoint.files))
    if missing is not None:
        raise RefusedError("missing", name=missing)
    twice = next((f for f in checkpoint.faults if f.kind == "tensor_in_two_files"), None)
    if twice is not None:
        raise RefusedError("twice", name=twice.tensor, first=twice.other, second=twice.file)
    if not checkpoint.names_sound or not checkpoint.tensors:
        raise RefusedError("damaged", names=checkpoint.files)
    if checkpoint.rivals:
        raise RefusedError("rivals", at=checkpoint.nested_in or "", others=checkpoint.rivals)
    _refuse_tensors(case)
    return Proposed((*_files(case), *_tied(case)), subject="weights")


def _refuse_tensors(case: Case) -> None:
    for name, info in case.checkpoint.tensors.items():
        if info.dtype not in DTYPE_BITS:
            raise RefusedError("dtype", name=name, dtype=info.dtype)
        found = case.checkpoint.pickled(name)
        why = found.problem if found is not None else "it is not in the file"
        if why is not None:
            raise RefusedError("no_bytes", name=name, reason=why)


def _files(case: Case) -> tuple[Edit, ...]:
    checkpoint = case.checkpoint
    there = checkpoint.names_in_folder()
    alone = len(checkpoint.files) == 1
    edits: list[Edit] = []
    for file in checkpoint.files:
        to = safetensors_name(file, alone)
        if to is None:
            raise RefusedError("names", names=checkpoint.files)
        if to in there:
            raise RefusedError("taken", name=to)
        edits.append(ConvertPickle(file, to))
    if checkpoint.index_file is not None:
        edits.append(OmitFile(checkpoint.index_file))
    if not alone:
        if INDEX_NAME in there:
            raise RefusedError("taken", name=INDEX_NAME)
        edits.append(RewriteIndex(INDEX_NAME))
    return tuple(edits)


def _tied(case: Case) -> tuple[Edit, ...]:
    """The head of a whole model that is its embedding, once: transformers ties them again when it loads.

    In a draft both stay: an engine that does not read tie_word_embeddings of a draft takes the target's head when it
    finds none (contracts, head of the drafts of vLLM from 0.11.1 on), which is another matrix.
    """
    draft = case.facts.draft
    if draft.tabled or draft.flags.tie_word_embeddings is not True:
        return ()
    names = case.checkpoint.tensors
    heads = [name for name in names if name.endswith("lm_head.weight")]
    bases = [name for name in names if name.endswith("embed_tokens.weight")]
    if len(heads) != 1 or len(bases) != 1:
        return ()
    head, base = case.checkpoint.pickled(heads[0]), case.checkpoint.pickled(bases[0])
    return (DropTensor(heads[0]),) if head and base and head.same_view(base) else ()
