"""Values with one reading are written plainly, and those with another stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treating.configs import changed, is_safe, told_of
from treatment_cases import plan, settings, write

# --- plain-value and ids-to-integers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("intermediate_size", "128", 128),
        ("intermediate_size", " 128.0 ", 128),
        ("intermediate_size", 128.0, 128),
        ("tie_word_embeddings", "False", False),
        ("bias", "true", True),
    ],
)
def test_a_value_with_one_reading_is_written_plainly(key: str, written: Any, value: Any, tmp_path: Path) -> None:
    told = told_of(changed(config={key: written}), tmp_path, "CFG007")
    assert settings(told) == {key: value}
    assert is_safe(told) == (value is not False)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("intermediate_size", "4k"),
        ("intermediate_size", "1,024"),
        ("intermediate_size", "0128"),
        ("intermediate_size", "-128"),
        ("intermediate_size", "٣٢"),
        ("intermediate_size", 128.5),
        ("intermediate_size", True),
        ("intermediate_size", [128]),
        ("intermediate_size", 0),
        ("tie_word_embeddings", "yes"),
        ("tie_word_embeddings", 1),
        ("tie_word_embeddings", ""),
    ],
)
def test_a_value_with_another_reading_stays(key: str, written: Any, tmp_path: Path) -> None:
    assert "decides" in str(told_of(changed(config={key: written}), tmp_path, "CFG007"))


# --- words ------------------------------------------------------------------------------------------------------------


def test_nothing_else_of_the_config_changes(tmp_path: Path) -> None:
    draft = changed(config={"intermediate_size": "128", "note": {"kept": [1, None, "é"]}})
    done = plan(write(draft, tmp_path))
    wanted = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")) | {"intermediate_size": 128}
    assert done.state.json["config.json"] == wanted
