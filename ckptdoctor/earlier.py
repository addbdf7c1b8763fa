"""Whether a file is an earlier result of ours, which the next one may replace where nothing else may be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["BASELINE", "PICTURE", "REPORT", "is_earlier"]

REPORT, BASELINE, PICTURE = "report", "baseline", "picture"
"""What a command writes at a place that a person names."""

_LIMIT = 256 * 1024 * 1024
_HEAD = 4096
_JUNIT = re.compile(r'<\?xml[^>]*>\s*<testsuites name="ckptdoctor" ')
_HTML = re.compile(r'<!doctype html>.*<meta name="generator" content="ckptdoctor ', re.DOTALL | re.IGNORECASE)
_TEXT = re.compile(r"(?:could not examine [^\n]+: |[^\s#][^\n]*\n(?:  [^\n]+\n)*\n  \S)")
_SECTIONS = re.compile(
    r"^(?:  (?:next commands|not judged|serving\b.*|no findings.*|\d+ (?:error|warning|note)s?\b.*)"
    r"|\d+ checkpoints?: .+)$",
    re.MULTILINE,
)
_MARKDOWN = re.compile(
    r"### [^\n]+\n\n(?:[^\n]*\*\*(?:no findings|\d+ [ewnc])[^\n]*\*\*\n|\u274c Could not be examined: )"
)
_TOTAL = re.compile(r"\d+ checkpoints?: .+")


def is_earlier(place: Path, form: str) -> bool:
    """Whether the regular file `place` is empty or a whole result of this form. Raises `OSError`."""
    if place.stat().st_size > _LIMIT:
        return False
    data = place.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if not text:
        return True
    if form == PICTURE:
        return text[:_HEAD].lstrip().startswith("<svg")
    if text.startswith("{"):
        return _is_json(text, form)
    return form == REPORT and _is_report(text)


def _is_json(text: str, form: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if form == BASELINE:
        rows = value.get("findings")
        return set(value) == {"schema_version", "findings"} and isinstance(rows, list) and all(map(_is_row, rows))
    own = _named(value, "tool") == "ckptdoctor" and isinstance(value.get("checkpoints"), list)
    return form == REPORT and (own or _is_sarif(value))


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and {"path", "rule", "mark"} <= row.keys()


def _is_sarif(value: dict[str, Any]) -> bool:
    runs = value.get("runs")
    tools = [run.get("tool") if isinstance(run, dict) else None for run in runs] if isinstance(runs, list) else []
    return bool(tools) and all(isinstance(tool, dict) and _named(tool, "driver") == "ckptdoctor" for tool in tools)


def _named(value: dict[str, Any], key: str) -> Any:
    held = value.get(key)
    return held.get("name") if isinstance(held, dict) else None


def _is_report(text: str) -> bool:
    head = text[:_HEAD]
    if _JUNIT.match(head) or _HTML.match(head) or _MARKDOWN.match(head):
        return True
    if _TEXT.match(head) and _SECTIONS.search(text):
        return True
    if all(line.startswith(("could not examine ", "  ")) for line in text.splitlines() if line):
        return text.startswith("could not examine ")
    *commands, last = text.rstrip("\n").split("\n")
    return _TOTAL.fullmatch(last) is not None and all(line.startswith("::") for line in commands)
