"""What the tests of treatments of files share: what a proposal does that is safe, and what a treatment refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def edits(told: Proposal | str) -> tuple[Any, ...]:
    assert isinstance(told, Proposal), told
    assert told.safety == "safe"
    return told.edits


def refused(treatment: str, folder: Path, **arguments: Any) -> str:
    checkpoint = open_checkpoint(str(folder))
    with pytest.raises(RefusedError) as error:
        code_of(treatment)(Case(checkpoint, describe(checkpoint, None), reads=True), **arguments)
    return error.value.key
