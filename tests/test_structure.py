"""The rooms of the code: the direction of imports, the table of CONTRIBUTING, and the size of folders and modules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from importlinter import cli as import_linter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
MODULES = sorted(p for top in ("ckptdoctor", "tests") for p in (ROOT / top).rglob("*.py"))


def test_no_package_imports_from_above_and_no_two_modules_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    status = import_linter.lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_the_table_of_contributing_is_the_contract() -> None:
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][
        0
    ]["layers"]
    told = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("| package | takes → gives |")[1].split("\n\n")[0]
    )
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in told.splitlines() if line.startswith("| `")]
    ranks = {name: n for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert sorted(name for row in rows for name in row) == sorted(ranks)
    order = [ranks[name] for row in rows for name in row]
    assert order == sorted(order)


@pytest.mark.parametrize("top", ["ckptdoctor", "tests"])
def test_no_folder_has_more_than_25_modules(top: str) -> None:
    folders = {p.parent for p in MODULES if p.is_relative_to(ROOT / top)}
    crowded = {str(f.relative_to(ROOT)): n for f in folders if (n := len([*f.glob("*.py")])) > 25}
    assert crowded == {}


def test_no_module_is_longer_than_300_lines() -> None:
    long = {
        str(p.relative_to(ROOT)): n for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 300
    }
    assert long == {}
