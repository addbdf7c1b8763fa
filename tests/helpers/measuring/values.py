"""What the tests of values of weights share: a checkpoint with these tensors, and what is measured of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builder.container import encode
from builder.draft import Tensor

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.facts.asked import Asked
from ckptdoctor.facts.values.values import Values
from ckptdoctor.unknown import Unknown


def opened(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any] | None = None) -> Checkpoint:
    """A checkpoint of these tensors in the folder `folder`, which may be new."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(encode(tensors))
    (folder / "config.json").write_text(json.dumps(config or {}), encoding="utf-8")
    return open_checkpoint(str(folder))


def values(checkpoint: Checkpoint, against: Checkpoint | None = None) -> Values:
    measured = describe(checkpoint, None, asked=Asked(deep=True, against=against)).values
    assert not isinstance(measured, Unknown)
    return measured
