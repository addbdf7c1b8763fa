"""Of two copies with the same bytes one goes, and both stay where the bytes differ."""

from __future__ import annotations

import json
from pathlib import Path

from treating.tensors import dropped, tensor
from treatment_cases import Tensor, answer, draft_of, plan, put, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.repair.edits import RewriteIndex
from ckptdoctor.repair.plan.case import Proposal


def in_two_files(folder: Path, second: dict[str, Tensor], index: str | None = None) -> Path:
    draft = draft_of()
    write(draft, folder)
    put(folder / "old.safetensors", second)
    if index is not None:
        places = dict.fromkeys(draft.tensors, "model.safetensors") | dict.fromkeys(second, index)
        text = json.dumps({"metadata": {}, "weight_map": places | {"norm.weight": "old.safetensors"}})
        (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return folder


def test_second_copies_with_equal_bytes_are_left_out_of_their_file(tmp_path: Path) -> None:
    tensors = draft_of().tensors
    second = {name: tensors[name] for name in ("fc.weight", "norm.weight")}
    folder = in_two_files(tmp_path, second)
    (fault,) = [f for f in open_checkpoint(str(folder)).faults if f.kind == "tensor_in_two_files"]
    told = answer(folder, "ART017")
    assert dropped(told) == [("fc.weight", fault.file), ("norm.weight", fault.file)]
    made = plan(folder)
    assert "ART017" not in {f.rule for f in made.after.judgement.findings}
    assert set(made.after.facts.tensors) == set(tensors)


def test_an_index_follows_the_copy_that_is_left(tmp_path: Path) -> None:
    norm = draft_of().tensors["norm.weight"]
    folder = in_two_files(tmp_path, {"norm.weight": norm}, index="old.safetensors")
    told = answer(folder, "ART017")
    assert isinstance(told, Proposal)
    assert told.edits[-1] == RewriteIndex("model.safetensors.index.json")


def test_second_copies_with_other_values_both_stay(tmp_path: Path) -> None:
    folder = in_two_files(tmp_path, {"norm.weight": tensor(64)})
    told = answer(folder, "ART017")
    assert told == (
        "norm.weight holds different values in model.safetensors and in old.safetensors. The training run decides"
        " which of the two files is the newer export; remove the other one."
    )
    assert all(s.treatment != "drop-second-copy" for s in plan(folder, unsafe=True).steps)
