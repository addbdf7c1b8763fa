"""A map under another name gets its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.maps import INDEX
from treatment_cases import answer, draft_of, map_of, plan, write

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Proposal


@pytest.mark.parametrize(
    "name", ["draft_id_to_target_id", "model.draft_id_to_target_id", "draft_to_target", "draft_d2t"]
)
def test_a_map_under_another_name_is_renamed_and_none_is_made_up(name: str, tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors[name] = draft.tensors.pop("d2t")
    folder = write(draft, tmp_path)
    told = answer(folder, "VOC037" if "d2t" in name else "VOC036")
    assert isinstance(told, Proposal)
    assert told.edits == (RenameTensor(name, "d2t"),)
    assert told.safety == "unsafe"
    assert [s.treatment for s in plan(folder, unsafe=True).steps] == ["rename-map"]


def test_target_ids_under_another_name_are_not_renamed(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + INDEX)
    draft.tensors["draft_id_to_target_id"] = draft.tensors.pop("d2t")
    told = answer(write(draft, tmp_path), "VOC036")
    assert isinstance(told, str)
    assert "no right map of offsets" in told
