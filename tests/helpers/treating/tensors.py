"""What the tests of treatments of tensors share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from treatment_cases import Tensor, draft_of, floats, put

from ckptdoctor.repair.edits import DropTensor
from ckptdoctor.repair.plan.case import Proposal


def tensor(*shape: int, value: float = 0.5) -> Tensor:
    return floats(np.full(shape, value), "BF16")


def dropped(told: Proposal | str) -> list[tuple[str, str | None]]:
    assert isinstance(told, Proposal), told
    assert all(isinstance(edit, DropTensor) for edit in told.edits)
    return [(edit.name, edit.file) for edit in told.edits if isinstance(edit, DropTensor)]


def target_with(folder: Path, tensors: dict[str, Tensor], **config: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**(draft_of().target or {}), **config}), encoding="utf-8")
    put(folder / "model.safetensors", tensors)
    return folder
