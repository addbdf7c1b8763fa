"""A trainer's own names become those that engines look for, by the table `private_names` of rules/facts/naming.yaml."""

from __future__ import annotations

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import Option
from ckptdoctor.repair.support.layouts import layer_forms, named_tensors
from ckptdoctor.repair.support.renaming import all_fits, most_served

__all__ = ["propose"]


def propose(case: Case, trainer: str) -> Proposed:
    """Every tensor under a name of `trainer`'s own, in the layout that the named engines, or most releases, look for.

    Refused unless the draft is complete then and every shape fits.
    """
    named = named_tensors(case.facts)
    private = {n: m for n, m in named.items() if m.private == trainer}
    numbers = {int(m.canonical.split(".")[1]) for m in named.values() if m.canonical.startswith("layers.")}
    options = []
    for form in layer_forms(numbers):
        edits = []
        for name, meaning in private.items():
            layer, _, rest = meaning.canonical.removeprefix("layers.").partition(".")
            inside = meaning.canonical.startswith("layers.")
            edits.append(
                RenameTensor(name, meaning.prefix + (form.format(n=layer) + rest if inside else meaning.canonical))
            )
        taken = next((e for e in edits if e.to in case.facts.tensors), None)
        if taken is not None:
            raise RefusedError("collision", name=taken.name, other=taken.to)
        options.append(Option(form, tuple(edits)))
    all_fits(case, options[0].edits)
    return Proposed(most_served(case, options).edits, subject=f"the names of {trainer}")
