"""The limits: each is told in docs/limits.md (written by `python tests/test_limits.py > docs/limits.md`), and used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ckptdoctor import limits

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "ckptdoctor" / "limits.py"
HEAD = """# Limits

How much of each input is read. Past a limit nothing is guessed: the part is told as unknown, as damaged or as too
large, in a sentence, and the exit code is 1, 2 or 3. They are in `ckptdoctor/limits.py`; a test holds this page to it.
"""


def limits_page() -> str:
    """The page: a table for each section of the module. Raises `AssertionError` for a limit without a docstring."""
    source = MODULE.read_text(encoding="utf-8")
    made, lines = [HEAD], source.splitlines()
    sections = {n: m[1] for n, line in enumerate(lines, 1) if (m := re.match(r"# --- (.+?) -+$", line))}
    body = ast.parse(source).body
    for number, node in enumerate(body):
        if not isinstance(node, ast.Assign):
            continue
        above = [n for n in sections if n < node.lineno]
        if above and (title := sections.pop(max(above), None)) is not None:
            made.append(f"\n## {title[0].upper()}{title[1:]}\n\n| name | limit | of what |\n|---|---|---|\n")
        assert isinstance(node.targets[0], ast.Name)
        told = body[number + 1] if number + 1 < len(body) else None
        assert isinstance(told, ast.Expr), node.targets[0].id
        assert isinstance(told.value, ast.Constant), node.targets[0].id
        value = eval(compile(ast.Expression(node.value), "limits", "eval"), {})
        made.append(f"| `{node.targets[0].id}` | {value:,} | {' '.join(str(told.value.value).split())} |\n")
    return "".join(made)


def test_the_page_is_the_module() -> None:
    assert (ROOT / "docs" / "limits.md").read_text(encoding="utf-8") == limits_page()


def test_each_limit_is_used() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "ckptdoctor").rglob("*.py") if p.name != "limits.py")
    names = [name for name in vars(limits) if name.isupper()]
    assert len(names) > 20
    assert [name for name in names if code.count(name) < 2] == []


if __name__ == "__main__":
    print(limits_page(), end="")
