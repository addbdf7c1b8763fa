"""What the output goes to: how wide it is and whether it takes colour."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

__all__ = ["DEFAULT_WIDTH", "Surface", "surface_for"]

DEFAULT_WIDTH = 100
_NARROWEST, _WIDEST = 60, 110


@dataclass(frozen=True)
class Surface:
    """The place a report is written to. The default is a file: plain text, 100 columns."""

    width: int = DEFAULT_WIDTH
    colour: bool = False


def surface_for(stream: TextIO | None, color: str = "auto", env: Mapping[str, str] | None = None) -> Surface:
    """The surface of `stream` under `--color auto|always|never` and the environment.

    Colour is off when the stream is no terminal, when `NO_COLOR` is set to anything, or on a terminal
    that says it is dumb. An explicit `always` or `never` outranks all of that.
    """
    env = os.environ if env is None else env
    terminal = stream is not None and stream.isatty()
    width = DEFAULT_WIDTH
    if terminal:
        columns = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
        width = min(max(columns, _NARROWEST), _WIDEST)
    if color == "auto":
        colour = terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    else:
        colour = color == "always"
    return Surface(width, colour)
