"""A decoder layer that is stored whole under a name of its own gets a name that engines look for."""

from __future__ import annotations

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import Option
from ckptdoctor.repair.support.layouts import layer_forms, named_tensors
from ckptdoctor.repair.support.renaming import all_fits, most_served
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case, layer: str, stem: str) -> Proposed:
    """The tensors under `stem` as those of `layer` (`layers.0`), as the named engines, or most releases, call them.

    Only where one whole layer is missing and one stem is there, and all parts are there with shapes that fit.
    Refused else: which of several is which cannot be told.
    """
    names = case.facts.draft.names
    if isinstance(names, Unknown):
        raise RefusedError("unread")
    whole = [m.where for m in names.missing if m.whole]
    if len(names.layer_stems) == 1 and case.facts.draft.depth_stored == 0:
        # One layer lies about and none is stored: that the config says more is another fault, and is told as such.
        whole = whole[:1]
    if layer not in whole or len(whole) > 1 or len(names.layer_stems) > 1:
        raise RefusedError("several", layers=whole, stems=[s.rstrip(".") for s in names.layer_stems])
    parts = {n: m for n, m in named_tensors(case.facts).items() if n.startswith(f"{stem}.")}
    prefix = next((m.prefix for m in parts.values()), "")
    number = int(layer.removeprefix("layers."))
    beside = [m.canonical.split(".") for n, m in named_tensors(case.facts).items() if n not in parts]
    others = {int(words[1]) for words in beside if words[0] == "layers" and words[1:] and words[1].isdecimal()}
    options = []
    # A prefix that the layer alone carries goes with its name; one that other parameters carry too is another fault.
    alone = bool(prefix) and all(m.prefix != prefix for n, m in named_tensors(case.facts).items() if n not in parts)
    for form in layer_forms({*others, number}):
        to = ("" if alone else prefix) + form.format(n=number)
        edits = tuple(RenameTensor(n, to + n[len(stem) + 1 :]) for n in parts)
        taken = next((e for e in edits if e.to in case.facts.tensors), None)
        if taken is not None:
            raise RefusedError("collision", name=taken.name, other=taken.to)
        options.append(Option(f"{to}*", edits))
    all_fits(case, options[0].edits)
    return Proposed(most_served(case, options).edits, subject=f"the layer {layer}")
