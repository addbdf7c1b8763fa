"""Metadata of a container become texts, unless more than they is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treating.files import edits
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.repair.edits import SetMetadata


def with_metadata(folder: Path, metadata: Any, **entry: Any) -> Path:
    write(draft_of(), folder)
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": metadata}
    for name, fields in entry.items():
        header[name] |= fields
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return folder


def test_metadata_is_written_as_texts(tmp_path: Path) -> None:
    folder = with_metadata(tmp_path, {"format": "pt", "step": 100, "loss": [0.5, None], "by": {"who": "é"}})
    texts = (("format", "pt"), ("step", "100"), ("loss", "[0.5, null]"), ("by", '{"who": "\\u00e9"}'))
    assert edits(answer(folder, "ART015")) == (SetMetadata("model.safetensors", texts),)
    assert not [f for f in plan(folder).after.judgement.findings if f.rule == "ART015"]


@pytest.mark.parametrize("metadata", ["text", [1], 5])
def test_metadata_that_is_no_object_stays(metadata: Any, tmp_path: Path) -> None:
    assert "not even an object" in str(answer(with_metadata(tmp_path, metadata), "ART015"))


def test_metadata_stays_where_more_is_damaged_or_it_is_no_metadata(tmp_path: Path) -> None:
    folder = with_metadata(tmp_path / "a", {"step": 1}, d2t={"dtype": "I32"})
    assert "More than its metadata" in str(answer(folder, "ART015"))
    folder = with_metadata(tmp_path / "b", {"step": list(range(300_000))})
    assert "more than a megabyte" in str(answer(folder, "ART015"))
