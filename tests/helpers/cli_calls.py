"""Commands as the tests call them, and what they print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from cli_drafts import (
    PLAN,
    ROOT,
)

from ckptdoctor.cli.main import run

Capture = pytest.CaptureFixture[str]


def plan(capsys: Capture, path: str, engine: str, *args: str) -> tuple[int, str]:
    """Exit code and stdout; nothing may go to stderr."""
    code = run(["plan", path, "--engine", engine, *args])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def plan_json(capsys: Capture, path: str, engine: str, *args: str, caveats: Sequence[str] = ()) -> dict[str, Any]:
    """The one plan of the document, held to the schema."""
    _, out = plan(capsys, path, engine, *args, "--format", "json")
    assert out.isascii()
    document = json.loads(out)
    assert document.keys() == {"schema_version", "caveats", "plans"}
    assert (document["schema_version"], document["caveats"]) == (1, list(caveats))
    (found,) = document["plans"]
    PLAN.validate(found)
    return dict(found)


SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "rules" / "schema" / "vocab.schema.json").read_text(encoding="utf-8"))
)


def show(capsys: Capture, path: str, *args: str) -> str:
    """The page of a call that does well; nothing may go to stderr."""
    code = run(["vocab", "show", path, *args])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def shown(capsys: Capture, path: str, *args: str) -> dict[str, Any]:
    """The document, held to the schema."""
    out = show(capsys, path, *args, "--format", "json")
    assert out.isascii()
    found = json.loads(out)
    SCHEMA.validate(found)
    return dict(found)


def bare(text: str) -> str:
    """`text` without spaces and line ends: long paths break lines."""
    return "".join(text.split())


def stored_targets(path: str) -> list[int]:
    """The target ids of a draft of SpecForge, read without ckptdoctor."""
    data = (Path(path) / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start])["d2t"]
    values = np.frombuffer(data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]], dtype="<i8")
    return [i + int(v) for i, v in enumerate(values)]
