"""A config is written again with what engines read, unless a number would be lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from treating.files import edits
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.repair.edits import RewriteJson


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("CFG003", lambda text: text.replace("{", '{"hidden_size": 4096,', 1)),
        ("CFG006", lambda text: "\ufeff" + text),
    ],
)
def test_a_config_is_written_again_with_what_engines_read(
    rule: str, change: Callable[[str], str], tmp_path: Path
) -> None:
    folder = write(draft_of(), tmp_path)
    text = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(change(text), encoding="utf-8")
    assert edits(answer(folder, rule)) == (RewriteJson("config.json"),)
    done = plan(folder)
    assert done.state.json["config.json"] == json.loads(text)
    assert not [f for f in done.after.judgement.findings if f.rule == rule]


def test_a_config_with_a_number_that_would_be_lost_is_not_written_again(tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    text = (folder / "config.json").read_text(encoding="utf-8")
    text = text.replace("{", '{"hidden_size": 64, "length": 1' + "0" * 30 + ",", 1)
    (folder / "config.json").write_text(text, encoding="utf-8")
    assert "would be lost" in str(answer(folder, "CFG003"))
