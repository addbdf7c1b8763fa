"""The layouts of Medusa heads as renames of what is stored, for an engine that looks for another one."""

from __future__ import annotations

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.medusa.head_names import layout_of, written
from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.choosing import Option

__all__ = ["medusa_layouts"]


def medusa_layouts(facts: Facts) -> list[Option]:
    """The heads as they are, then in every layout that is known. A layout in which two tensors would have one name is
    left out."""
    options = [Option("the names as they are", ())]
    read = layout_of(facts.tensors)
    if read is None or facts.medusa is None:
        return options
    for layout in knowledge().words["medusa"]["layouts"]:
        renames = tuple(
            RenameTensor(n.name, to) for n in read[1] if (to := written(n, layout, "", facts.medusa.layers)) != n.name
        )
        moved = {r.name: r.to for r in renames}
        if renames and len({moved.get(name, name) for name in facts.tensors}) == len(facts.tensors):
            options.append(Option(f"the names of the {layout} layout", renames))
    return options
