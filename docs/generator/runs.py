"""Blocks of a page that show what a command prints: `<!-- runs: COMMAND -->` and the block that follows it.

`<!-- runs, exit 1: COMMAND -->` also says with which code the command ends. Commands run in the folder of
the checkout and begin with `ckptdoctor`. `<!-- file: PATH -->` before a block shows a file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["Shown", "refreshed", "shown"]

_ROOT = Path(__file__).parents[2]
_OUTPUT = r"\n```\w*\n)(?P<output>.*?)\n?```(?=\n|\Z)"
_BLOCK = re.compile(
    r"(?P<head><!-- runs(?:, exit (?P<exit>\d+))?: (?P<command>[^\n]+?) -->" + _OUTPUT,
    re.DOTALL,
)
_FILE = re.compile(r"(?P<head><!-- file: (?P<path>\S+) -->" + _OUTPUT, re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command, what the page says that it prints, and the exit code it gives (None: not said)."""

    command: str
    output: str
    exit: int | None

    @property
    def can_run(self) -> bool:
        """Whether what the command needs is here: `probe` runs drafts with torch and targets with transformers."""
        return _can_run(self.command)

    def run(self) -> tuple[str, int]:
        """What it prints on stdout and stderr, and its exit code."""
        return _run(self.command)


def shown(text: str) -> Iterator[Shown]:
    """The commands of a page."""
    for block in _BLOCK.finditer(text):
        yield Shown(block["command"], block["output"], None if block["exit"] is None else int(block["exit"]))


def refreshed(text: str) -> str:
    """The page with what each command prints now, and the files as they are."""
    text = _FILE.sub(lambda block: f"{block['head']}{_read(block['path'])}\n```", text)
    return _BLOCK.sub(_renewed, text)


def _renewed(block: re.Match[str]) -> str:
    """The block with the command's output; as it is where the command cannot be run here."""
    output = _run(block["command"])[0] if _can_run(block["command"]) else block["output"]
    return f"{block['head']}{output}\n```"


def _can_run(command: str) -> bool:
    needs = ("torch", "transformers") if command.startswith("ckptdoctor probe") else ()
    return all(importlib.util.find_spec(name) is not None for name in needs)


def _read(path: str) -> str:
    return (_ROOT / path).read_text(encoding="utf-8").rstrip("\n")


@lru_cache(maxsize=64)
def _run(command: str) -> tuple[str, int]:
    words = shlex.split(command)
    if words[0] != "ckptdoctor":
        raise ValueError(f"only ckptdoctor is run for a page, not {command!r}")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    done = subprocess.run(  # noqa: S603  # the commands of our own pages
        [sys.executable, "-m", *words],
        cwd=_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.stdout.rstrip("\n"), done.returncode
