"""The lower bounds of the dependencies are what CI installs, and the promises of SECURITY.md name tests that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


def test_the_oldest_releases_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {line.replace(">=", "==") for line in project["dependencies"] if "python_version" not in line}
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if not line.startswith("#")} == wanted


def test_each_promise_of_security_names_tests_that_exist() -> None:
    told = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in told.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 5
    for row in rows:
        places = re.findall(r"`(tests/[\w/.]+)`", row)
        assert places, row
        assert [place for place in places if not (ROOT / place).exists()] == []
