"""A baseline: findings that are known and do not count, so that an old registry starts clean and only new ones fail."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.checkpoint.jsonreader import read_json
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.findings import Examination, Finding, fingerprint
from ckptdoctor.limits import BASELINE_FILE
from ckptdoctor.named_file import read_named
from ckptdoctor.text import show
from ckptdoctor.whole_file import write_whole

__all__ = ["Baseline", "read_baseline", "write_baseline"]

VERSION = 1


@dataclass(frozen=True)
class Baseline:
    """How often each known finding occurs, by the path of its checkpoint and its fingerprint. `source` is the file."""

    source: Path
    known: Mapping[tuple[str, str], int]

    def without_known(self, path: str, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """The findings of the checkpoint at `path` that are new, and those that are known, in their order."""
        left = Counter({print_: n for (place, print_), n in self.known.items() if place == self.label(path)})
        new: list[Finding] = []
        old: list[Finding] = []
        for finding in findings:
            mark = fingerprint(finding)
            if left[mark] > 0:
                left[mark] -= 1
                old.append(finding)
            else:
                new.append(finding)
        return new, old

    def label(self, path: str) -> str:
        """How the baseline calls the checkpoint at `path`: relative to its own folder where it lies in there."""
        return _label(self.source, path)


def read_baseline(path: Path) -> Baseline:
    """The baseline in the file `path`. Raises `UsageError`."""
    try:
        document = read_json(read_named(path, BASELINE_FILE), path.name)
    except (OSError, CannotExamineError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"the baseline {show(path)} cannot be read ({show(why, 200)})") from None
    content = document.object if document.readable else {}
    rows = content.get("findings")
    if content.get("schema_version") != VERSION or not isinstance(rows, list):
        raise UsageError(f"{show(path)}: is no baseline of ckptdoctor")
    known: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("path"), str) or not isinstance(row.get("mark"), str):
            raise UsageError(f"{show(path)}: is no baseline of ckptdoctor")
        known[row["path"], row["mark"]] += 1
    return Baseline(path, known)


def write_baseline(path: Path, examinations: Iterable[Examination]) -> int:
    """Write all findings of `examinations` to the file `path`, whole or not at all; how many there are.

    Raises `CannotExamineError` when it cannot be written.
    """
    rows = [
        {"path": _label(path, e.path), "rule": f.rule, "name": f.name, "severity": f.severity.value,
         "mark": fingerprint(f)}
        for e in examinations
        for f in e.findings
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["path"], row["rule"], row["mark"]))
    text = json.dumps({"schema_version": VERSION, "findings": rows}, indent=1, ensure_ascii=True) + "\n"
    write_whole(path, text)
    return len(rows)


def _label(source: Path, path: str) -> str:
    if "://" in path:
        return path
    place = Path(os.path.realpath(path))
    base = Path(os.path.realpath(source.parent))
    return place.relative_to(base).as_posix() if place.is_relative_to(base) else place.as_posix()
