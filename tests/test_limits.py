"""The limits: each is told in docs/limits.md, and each is used."""

from __future__ import annotations

from pathlib import Path

from limits_page import limits_page

from ckptdoctor import limits

ROOT = Path(__file__).parents[1]


def test_the_page_is_the_module() -> None:
    assert (ROOT / "docs" / "limits.md").read_text(encoding="utf-8") == limits_page()


def test_each_limit_is_used() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "ckptdoctor").rglob("*.py") if p.name != "limits.py")
    names = [name for name in vars(limits) if name.isupper()]
    assert len(names) > 20
    assert [name for name in names if code.count(name) < 2] == []
