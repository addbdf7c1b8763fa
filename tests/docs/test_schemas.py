"""The schemas of the documents that commands print are those of their shapes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("docs_schemas", ROOT / "docs" / "schemas.py")
assert SPEC
assert SPEC.loader
SCHEMAS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCHEMAS)

TEXTS = list(SCHEMAS.texts())


@pytest.mark.parametrize(("path", "text"), [pytest.param(*one, id=one[0].stem) for one in TEXTS])
def test_the_file_is_what_the_shapes_say(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run python docs/schemas.py"
    Draft202012Validator.check_schema(json.loads(text))


def test_check_names_a_stale_file_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "rules" / "schema" / "fix.schema.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(SCHEMAS, "ROOT", tmp_path)
    monkeypatch.setattr(SCHEMAS, "texts", lambda: iter([(stale, "{}\n")]))
    assert SCHEMAS.main(["--check"]) == 1
    assert capsys.readouterr().out == "rules/schema/fix.schema.json is stale: run python docs/schemas.py\n"
    assert stale.read_text(encoding="utf-8") == "{}"
    assert (SCHEMAS.main([]), SCHEMAS.main(["--check"])) == (0, 0)
    assert stale.read_text(encoding="utf-8") == "{}\n"
