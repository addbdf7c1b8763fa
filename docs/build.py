"""Write the generated pages of `docs/`: `python docs/build.py`. With `--check`: name those that are stale, exit 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from generator import algorithms_page, facts_page, index_page, refreshed, rule_page, writers_page  # noqa: E402

from ckptdoctor.scan import rulebook  # noqa: E402

WRITTEN = ("json.md", "own-rules.md")
"""The pages that are written by hand; only the output of the commands in them is renewed."""


def pages(folder: Path = HERE) -> Iterator[tuple[Path, str]]:
    """Each generated page, and the written ones with what their commands print now: where it belongs, and its text."""
    rules = rulebook().rules
    yield folder / "rules" / "README.md", index_page(rules)
    for rule in rules:
        path = folder / "rules" / f"{rule.id}.md"
        yield path, rule_page(rule, _text(path))
    yield folder / "writers.md", writers_page()
    yield folder / "algorithms.md", algorithms_page()
    yield folder / "facts.md", facts_page()
    for name in WRITTEN:
        yield folder / name, refreshed(_text(folder / name))


def stale(folder: Path = HERE) -> list[str]:
    """The pages that differ from what would be written, and those of rules that are gone; empty when all is well."""
    wanted = dict(pages(folder))
    old = [path for path in sorted((folder / "rules").glob("*.md")) if path not in wanted]
    wrong = [path for path, text in wanted.items() if _text(path) != text]
    return [str(path.relative_to(folder)) for path in (*wrong, *old)]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the stale pages and exit 1")
    if parser.parse_args(arguments).check:
        found = stale()
        for name in found:
            print(f"docs/{name} is stale: run python docs/build.py")
        return 1 if found else 0
    (HERE / "rules").mkdir(exist_ok=True)
    written = dict(pages())
    for path in (HERE / "rules").glob("*.md"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
