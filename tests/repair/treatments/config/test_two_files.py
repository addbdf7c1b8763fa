"""While two files hold a tensor, nothing is derived from either: no size in the config is repaired."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

from treatment_cases import Tensor, answer, draft_of, plan, put, write

from ckptdoctor.findings import Severity


def stray(folder: Path, *, halved: bool) -> Path:
    """A sound draft, and beside it a.safetensors with the same names, in the same shapes or in smaller ones."""
    draft = draft_of()
    write(draft, folder)
    floats = {name: t for name, t in draft.tensors.items() if t.dtype == "BF16"}
    put(folder / "a.safetensors", {name: changed(t, 2 if halved else 1) for name, t in floats.items()})
    return folder


def changed(old: Tensor, by: int) -> Tensor:
    shape = tuple(max(1, size // by) for size in old.shape)
    return Tensor("BF16", shape, b"\x01\x3c" * prod(shape))


def test_a_stray_file_of_other_shapes_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    folder = stray(tmp_path, halved=True)
    found = plan(folder)
    errors = {f.rule for f in found.before.judgement.findings if f.severity is Severity.ERROR}
    assert errors == {"ART046"}
    assert found.steps == ()


def test_no_size_is_repaired_while_copies_differ(tmp_path: Path) -> None:
    folder = stray(tmp_path, halved=False)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["draft_vocab_size"] *= 2
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    told = answer(folder, "VOC013")
    assert isinstance(told, str)
    assert told.endswith(
        "which of the two counts is decided by the order in which an engine reads the files, so nothing is derived from"
        " either. Remove the file that does not belong"
    )
    assert plan(folder).steps == ()
