"""The project file: `ckptdoctor.toml`, or the table `[tool.ckptdoctor]` of a `pyproject.toml`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Severity
from ckptdoctor.limits import PROJECT_FILE
from ckptdoctor.named_file import read_named
from ckptdoctor.text import show

__all__ = ["NO_POLICY", "PROJECT_FILES", "Exemption", "Policy", "find_project", "load_policy"]

PROJECT_FILES = ("ckptdoctor.toml", "pyproject.toml")
"""Names of project files; in a `pyproject.toml` only the table `[tool.ckptdoctor]` counts."""


@dataclass(frozen=True)
class Exemption:
    """Findings that do not count: those of the rules `rule` (an id, a name or a family), until the end of `expires`.

    `path` limits it to checkpoints whose path matches this pattern (`*` and `?`).
    """

    rule: str
    reason: str
    expires: date
    path: str | None = None


@dataclass(frozen=True)
class Policy:
    """What a project asks for. `source` is the file it was read from, None where nobody wrote one.

    Paths are absolute: those in the file are relative to its folder (`target` may be `hf://org/name`).
    """

    source: Path | None = None
    engines: tuple[str, ...] = ()
    target: str | None = None
    launch: str | None = None
    trained_with: str | None = None
    captured_with: str | None = None
    deep: bool = False
    fail_on: str = "error"
    rules: tuple[Path, ...] = ()
    baseline: Path | None = None
    severities: Mapping[str, Severity] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()


NO_POLICY = Policy()


def find_project(start: Path) -> Path | None:
    """The project file for the folder `start`: in it or in the nearest folder above, up to a repository's root."""
    folder = start.resolve()
    for place in (folder, *folder.parents):
        try:
            for name in PROJECT_FILES:
                path = place / name
                if path.is_file() and (name != "pyproject.toml" or _table(path) is not None):
                    return path
            if (place / ".git").exists():
                return None
        except OSError:  # a folder that may not be looked into
            return None
    return None


def load_policy(path: Path) -> Policy:
    """The policy in the project file `path`. Raises `UsageError` with what is wrong and where."""
    if not path.is_file():
        raise UsageError(f"{show(path)}: no such file")
    table = _table(path)
    if table is None:
        raise UsageError(f"{show(path)}: has no table [tool.ckptdoctor]")
    _check(path, table)
    base = path.resolve().parent
    return Policy(
        source=path,
        engines=tuple(table.get("engines", ())),
        target=_place(base, table.get("target")),
        launch=table.get("launch"),
        trained_with=table.get("trained-with"),
        captured_with=table.get("captured-with"),
        deep=bool(table.get("deep", False)),
        fail_on=str(table.get("fail-on", "error")),
        rules=tuple(base / folder for folder in table.get("rules", ())),
        baseline=base / table["baseline"] if "baseline" in table else None,
        severities={name: Severity(value) for name, value in table.get("severity", {}).items()},
        exemptions=tuple(_exemption(path, row) for row in table.get("ignore", ())),
    )


def _table(path: Path) -> dict[str, Any] | None:
    """The table of ours in `path`; None where a `pyproject.toml` has none. Raises `UsageError`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, Any] = tomllib.loads(read_named(path, PROJECT_FILE).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{show(path)}: cannot be read ({show(why, 200)})") from None
    if path.name != "pyproject.toml":
        return content
    tools = content.get("tool")
    own = tools.get("ckptdoctor") if isinstance(tools, dict) else None
    return own if isinstance(own, dict) else None


def _check(path: Path, table: Mapping[str, Any]) -> None:
    import json

    from jsonschema import Draft202012Validator

    from ckptdoctor.resources import rules_dir

    schema = json.loads((rules_dir() / "schema" / "policy.schema.json").read_text(encoding="utf-8"))
    plain = json.loads(json.dumps(table, default=str))  # TOML's own dates, as the texts that they are written as
    problems = sorted(Draft202012Validator(schema).iter_errors(plain), key=lambda e: list(map(str, e.absolute_path)))
    if problems:
        told = [f"{'.'.join(map(str, e.absolute_path)) or 'the file'}: {show(e.message, 200)}" for e in problems[:6]]
        raise UsageError("\n".join([f"{show(path)}: is no project file of ckptdoctor", *told]))


def _exemption(path: Path, row: Mapping[str, Any]) -> Exemption:
    try:
        expires = date.fromisoformat(str(row["expires"]))
    except ValueError:
        raise UsageError(f"{show(path)}: {show(row['expires'])} is no day (2027-03-01)") from None
    return Exemption(row["rule"], row["reason"], expires, row.get("path"))


def _place(base: Path, value: str | None) -> str | None:
    return value if value is None or "://" in value else str(base / value)
