"""Write the generated pages of `docs/`: `python docs/build.py`. With `--check`: name those that are stale, exit 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from generator import (  # noqa: E402
    algorithms_page,
    cases_page,
    engine_page,
    engines_index,
    facts_page,
    index_page,
    refreshed,
    rule_page,
    treatments_page,
    vocabulary_picture,
    writers_page,
)

from ckptdoctor.repair.known_rules import rulebook  # noqa: E402
from ckptdoctor.serving.contract.contracts import contracts  # noqa: E402

WRITTEN = ("acceptance.md", "fix.md", "json.md", "own-rules.md", "probe.md", "serving.md", "vocabulary.md")
"""The pages that are written by hand; only the output of the commands in them is renewed."""

FOLDERS = ("rules", "engines")
"""The folders that hold generated pages alone."""


def pages(folder: Path = HERE) -> Iterator[tuple[Path, str]]:
    """Each generated page, and the written ones with what their commands print now: where it belongs, and its text."""
    rules = rulebook().rules
    yield folder / "rules" / "README.md", index_page(rules)
    for rule in rules:
        path = folder / "rules" / f"{rule.id}.md"
        yield path, rule_page(rule, _text(path))
    yield folder / "engines" / "README.md", engines_index()
    for contract in contracts().values():
        yield folder / "engines" / f"{contract.engine}.md", engine_page(contract)
    yield folder / "writers.md", writers_page()
    yield folder / "algorithms.md", algorithms_page()
    yield folder / "facts.md", facts_page()
    yield folder / "cases.md", cases_page()
    yield folder / "treatments.md", treatments_page(rules)
    for name in WRITTEN:
        yield folder / name, refreshed(_text(folder / name))
    yield folder / "vocabulary.svg", vocabulary_picture()


def stale(folder: Path = HERE) -> list[str]:
    """The pages that differ from what would be written, and those of what is gone; empty when all is well."""
    wanted = dict(pages(folder))
    old = [path for name in FOLDERS for path in sorted((folder / name).glob("*.md")) if path not in wanted]
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
    written = dict(pages())
    for name in FOLDERS:
        (HERE / name).mkdir(exist_ok=True)
        for path in (HERE / name).glob("*.md"):
            if path not in written:
                path.unlink()
    readme = HERE.parent / "README.md"
    written[readme] = refreshed(_text(readme))
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
