"""A prefix that was saved with the names is taken off: renames of every tensor that carries it, and nothing else.

SGLang, vLLM and the EAGLE reference strip no prefix of a trainer (llama_eagle3.py of both, ea_model.py).
"""

from __future__ import annotations

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import score
from ckptdoctor.repair.support.layouts import named_tensors
from ckptdoctor.text import show

__all__ = ["propose"]


def propose(case: Case, prefix: str) -> Proposed:
    """The tensors that carry exactly `prefix`, under their names without it.

    Refused where such a name, or another one of the same parameter, is there already, where nothing would be left of
    one, and for `model.` where a named release looks for it.
    """
    named = named_tensors(case.facts)
    if prefix in case.facts.tensors:
        raise RefusedError("empty", name=prefix)
    renames = tuple(RenameTensor(n, n[len(prefix) :]) for n, meaning in named.items() if meaning.prefix == prefix)
    staying = set(case.facts.tensors) - {r.name for r in renames}
    taken = next((r for r in renames if r.to in staying), None)
    if taken is not None:
        raise RefusedError("collision", prefix=prefix, name=taken.name, other=taken.to)
    # Engines take midlayer and layers.0 for the same layer: under another name it is the same collision.
    meant = {named[name].canonical: name for name in staying}
    twin = next((r for r in renames if named[r.name].canonical in meant), None)
    if twin is not None:
        raise RefusedError("twin", prefix=prefix, name=twin.name, other=meant[named[twin.name].canonical])
    if case.engines and set(prefix.split(".")) <= {"model", ""}:
        before = [score(plan, case.facts) for plan in case.plans]
        facts = case.after(renames)
        for plan, old in zip(case.plans_after(renames), before, strict=True):
            if score(plan, facts) > old:
                raise RefusedError("wanted", engine=plan.label, prefix=prefix)
    return Proposed(renames, subject=f"the prefix {show(prefix)}")
