"""What the treatments that rename have in common: a check that all fits, and the choice of a layout."""

from __future__ import annotations

from collections.abc import Sequence

from ckptdoctor.repair.edits import Edit
from ckptdoctor.repair.plan.case import Case, RefusedError
from ckptdoctor.repair.plan.choosing import Option, suits_all
from ckptdoctor.repair.plan.reaching import reach
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["all_fits", "most_served"]


def all_fits(case: Case, edits: Sequence[Edit]) -> None:
    """Raise `RefusedError` unless the draft is what it was before these renames, complete, and of shapes that agree.

    A size of the config that all tensors contradict alike is the config's fault, and another treatment's.
    """
    before, after = case.facts.draft, case.after(edits).draft
    if after.algorithm != before.algorithm or isinstance(after.names, Unknown):
        raise RefusedError("other_draft", before=before.algorithm_name, after=after.algorithm_name)
    if after.names.collisions:
        raise RefusedError("collision", name=after.names.collisions[0], other="another name of this parameter")
    lacking = [n for m in after.names.missing for n in m.names] + [n for i in after.names.incomplete for n in i.absent]
    if lacking:
        raise RefusedError("parts", names=lacking[:6])
    shapes = known_or(after.shapes, ())
    wrong = [s.tensor for s in shapes]
    if wrong:
        raise RefusedError("shapes", names=wrong[:6])


def most_served(case: Case, options: Sequence[Option]) -> Option:
    """The option that suits the named engines; without any, the one that most known releases load, the first of equals.

    Raises `RefusedError('split')` when two named engines want different ones.
    """
    if len(options) == 1:
        return options[0]
    if case.engines:
        return suits_all(case, options)[0]
    reached = [reach(case, case.after(option.edits)) for option in options]
    return max(zip(options, reached, strict=True), key=lambda pair: (pair[1].whole, pair[1].served))[0]
