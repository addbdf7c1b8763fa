"""A policy at home in the gate: a copy in the git folder, with the rules and the baseline that it names."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.policy import Policy, load_policy, read_baseline
from ckptdoctor.text import show

__all__ = ["POLICY", "install_policy"]

POLICY = "policy.toml"
_RULES, _BASELINE = "rules", "baseline.json"


def install_policy(source: Path, home: Path) -> Path:
    """Copy the policy in `source` to the folder `home`, and what it names with it; the file that was written.

    A commit cannot change the copies. The target stays where it is, by its absolute path. Raises `UsageError` for a
    policy that cannot be read, `CannotExamineError` when it cannot be written.
    """
    policy = load_policy(source)
    rows = _rows(policy.baseline) if policy.baseline is not None else None
    try:
        return _write(policy, rows, home)
    except OSError as error:
        raise CannotExamineError(
            f"{show(home)}: the policy cannot be copied there ({show(error.strerror or error)})"
        ) from None


def _rows(path: Path) -> list[dict[str, Any]]:
    """The findings of a baseline; the paths in it, which are relative to its folder, made absolute."""
    known = read_baseline(path).known
    base = path.resolve().parent
    return [
        {"path": place if "://" in place else os.path.normpath(base / place), "mark": mark}
        for (place, mark), count in known.items()
        for _ in range(count)
    ]


def _write(policy: Policy, rows: list[dict[str, Any]] | None, home: Path) -> Path:
    fresh = home / f".{_RULES}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o700)
    try:
        rules = []
        for number, folder in enumerate(policy.rules):
            shutil.copytree(folder, fresh / str(number))
            rules.append(home / _RULES / str(number))
        shutil.rmtree(home / _RULES, ignore_errors=True)
        fresh.rename(home / _RULES)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    if rows is not None:
        _put(home / _BASELINE, json.dumps({"schema_version": 1, "findings": rows}, indent=1) + "\n")
    own = replace(policy, rules=tuple(rules), baseline=home / _BASELINE if rows is not None else None)
    _put(home / POLICY, _toml(own, home))
    return home / POLICY


def _put(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _toml(policy: Policy, home: Path) -> str:
    """The project file of `policy`, which is in `home`."""
    lines = [f"# A copy of {show(policy.source, 400)}, made by `ckptdoctor gate install --policy`."]
    values: dict[str, Any] = {
        "engines": list(policy.engines),
        "target": policy.target,
        "launch": policy.launch,
        "trained-with": policy.trained_with,
        "captured-with": policy.captured_with,
        "deep": policy.deep,
        "fail-on": policy.fail_on,
        "rules": [str(folder.relative_to(home)) for folder in policy.rules],
        "baseline": policy.baseline.name if policy.baseline else None,
    }
    lines += [f"{name} = {_value(value)}" for name, value in values.items() if value not in (None, [])]
    if policy.severities:
        lines += ["", "[severity]"]
        lines += [f"{_value(name)} = {_value(level.value)}" for name, level in policy.severities.items()]
    for row in policy.exemptions:
        lines += ["", "[[ignore]]", f"rule = {_value(row.rule)}", f"reason = {_value(row.reason)}"]
        lines += [f"expires = {row.expires.isoformat()}"]
        lines += [f"path = {_value(row.path)}"] if row.path is not None else []
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    # Strings, lists of strings and booleans look alike in JSON and TOML, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
