"""Every value that a contract gives a parameter before loading has its words in the reports."""

from __future__ import annotations

import json

from ckptdoctor.report.initial_values import LEFT, is_defined
from ckptdoctor.resources import rules_dir


def test_each_initial_value_of_the_contracts_has_its_words() -> None:
    schema = json.loads((rules_dir() / "schema" / "serving.schema.json").read_text(encoding="utf-8"))
    assert list(LEFT) == [row["const"] for row in schema["$defs"]["initial"]["oneOf"]]


def test_each_is_in_the_document_that_programs_read() -> None:
    schema = json.loads((rules_dir() / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    rows = [
        d["properties"]["initial"]["enum"] for d in schema["$defs"].values() if "initial" in d.get("properties", {})
    ]
    assert rows == [list(LEFT)]


def test_what_is_drawn_or_left_over_is_not_the_same_at_every_start() -> None:
    assert [word for word in LEFT if not is_defined(word)] == ["random", "empty"]
