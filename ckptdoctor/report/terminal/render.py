"""Lines of segments to characters: plain, or in colour through rich."""

from __future__ import annotations

import io
from collections.abc import Iterable

from ckptdoctor.report.terminal.segments import Line, physical
from ckptdoctor.report.terminal.surface import Surface

__all__ = ["STYLES", "render_lines"]

STYLES = {
    "path": "bold",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
    "fix": "green",
    "command": "green",
    "label": "cyan",
    "quiet": "dim",
    "unknown": "bold",
}
"""What the style names of segments mean on a terminal: the sixteen colours a person's own theme defines."""


def render_lines(lines: Iterable[Line], surface: Surface) -> str:
    """The text of `lines`, with a line end after each."""
    return _coloured(lines, surface) if surface.colour else _plain(lines, surface.width)


def _plain(lines: Iterable[Line], width: int) -> str:
    return "".join(
        "".join(segment.text for segment in parts).rstrip() + "\n" for item in lines for parts in physical(item, width)
    )


def _coloured(lines: Iterable[Line], surface: Surface) -> str:
    # Only here: a plain run must not pay for importing rich.
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for item in lines:
        for parts in physical(item, surface.width):
            for segment in parts:
                text.append(segment.text, STYLES.get(segment.style))
            text.append("\n")
    out = io.StringIO()
    # Whether to use colour was decided already, so nothing is left for rich to find out. The lines have
    # their final width; rich must neither wrap nor cut them.
    console = Console(
        file=out,
        force_terminal=True,
        color_system="standard",
        no_color=False,
        legacy_windows=False,
        highlight=False,
        width=surface.width,
    )
    console.print(text, end="", soft_wrap=True)
    return out.getvalue()
