"""What the tests of treatments of d2t and t2d share: maps as trainers write them, and looks at the edits."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from treatment_cases import Draft, bools, draft_of, integers

from ckptdoctor.repair.edits import AddTensor, CastTensor, ReplaceTensor
from ckptdoctor.repair.plan.case import Proposal

INDEX = np.arange(128, dtype=np.int64)


def only_edit(told: Proposal | str) -> ReplaceTensor | CastTensor | AddTensor:
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, (ReplaceTensor, CastTensor, AddTensor))
    return edit


VOCAB = 512


@st.composite
def right_maps(draw: st.DrawFn) -> tuple[np.ndarray, str]:
    """Distinct target ids of a vocabulary, in one of the orders that writers use: (targets, order)."""
    count = draw(st.integers(20, 200))
    order = draw(st.sampled_from(["ascending", "frequency", "descending"]))
    zeros = draw(st.integers(0, count - 1))
    rest = draw(st.lists(st.integers(zeros, VOCAB - 1), min_size=count - zeros, max_size=count - zeros, unique=True))
    targets = np.array([*range(zeros), *rest], dtype=np.int64)
    if order == "ascending":
        targets = np.sort(targets)
    elif order == "descending":
        targets = np.sort(targets)[::-1].copy()
    else:
        targets = np.array(draw(st.permutations(targets.tolist())), dtype=np.int64)
    return targets, order


def draft_with(targets: np.ndarray, stored: np.ndarray, mask: bool) -> Draft:
    draft = draft_of("specforge-eagle3", draft_vocab=len(targets))
    draft.tensors["d2t"] = integers(stored)
    if mask:
        marked = np.zeros(VOCAB, dtype=bool)
        marked[targets] = True
        draft.tensors["t2d"] = bools(marked)
    else:
        del draft.tensors["t2d"]
    return draft
