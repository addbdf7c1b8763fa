"""The names that `ckptdoctor` offers to Python, in a process of their own: an import elsewhere must not hide them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ckptdoctor

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_the_readme_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    sick = "fixtures/sick/readme-sick-draft"
    code = code.replace('"my-draft"', f'"{sick}"').replace('"my-target"', f'"{sick}/target"')
    assert [line.split()[:2] for line in run(code).splitlines()] == [
        ["AUX001", "error"],
        ["KEY007", "error"],
        ["VOC001", "error"],
    ]


@pytest.mark.parametrize("name", sorted(ckptdoctor.__all__))
def test_a_name_is_the_thing_and_not_its_module(name: str) -> None:
    code = f"import ckptdoctor.cli.main, types, ckptdoctor\nprint(isinstance(ckptdoctor.{name}, types.ModuleType))"
    assert run(code) == "False\n"


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, ckptdoctor\nprint(sorted(m for m in sys.modules if m.startswith('ckptdoctor.')))"
    assert run(code) == "[]\n"
