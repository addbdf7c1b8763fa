"""What all rows of an audit depend on beside the files of each checkpoint, as one mark."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from ckptdoctor.audit.places import mark_of
from ckptdoctor.audit.work import Setup
from ckptdoctor.planning import chosen_engines
from ckptdoctor.resources import rules_dir
from ckptdoctor.version import __version__

__all__ = ["context_of", "rules_mark"]


def context_of(setup: Setup, today: date) -> str:
    """32 hex digits that change with the tool, its rules, the options, the policy, and when an exception of it ends.

    Raises `UsageError` for an unknown engine.
    """
    policy, baseline, target = setup.policy, setup.baseline, setup.target
    asked: dict[str, Any] = {
        "tool": [__version__, rules_mark()],
        "policy": {**asdict(policy), "source": None, "baseline": None, "fail_on": None},
        "ended": [e.expires < today for e in policy.exemptions],
        "baseline": None if baseline is None else sorted([*key, n] for key, n in baseline.known.items()),
        "rules": [_content(folder) for folder in setup.rules],
        "select": sorted(setup.select),
        "ignore": sorted(setup.ignore),
        "engines": _releases(setup.engines),
        "launch": setup.launch,
        "provenance": asdict(setup.provenance),
        "deep": setup.deep,
        "target": None if target is None else [target, _files(target)],
    }
    return _digest(json.dumps(asked, default=str, sort_keys=True))


@lru_cache(maxsize=1)
def rules_mark() -> str:
    """32 hex digits of the rules that ship with the tool."""
    return _content(rules_dir())


def _releases(engines: Sequence[str]) -> list[tuple[str, str]]:
    """The engines that were asked for, with `installed` and newest releases as the numbers that they are now."""
    return [(contract.engine, str(release)) for contract, release, _ in chosen_engines(engines)]


def _content(folder: Path) -> str:
    parts = [
        [path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".yaml", ".yml", ".toml")
    ]
    return _digest(json.dumps(parts))


def _files(target: str) -> str:
    """A mark of the files of a target on this machine; its address where it is elsewhere."""
    place = Path(target)
    folder = place if place.is_dir() else place.parent
    try:
        with os.scandir(folder) as entries:
            files = [(e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in entries if e.is_file()]
    except OSError:
        return target
    return mark_of(files)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
