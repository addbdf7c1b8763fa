"""The table of formats. A new format is one module with `render(report, surface)` and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Report
from ckptdoctor.report import json_report, text_report
from ckptdoctor.report.confidence import capped
from ckptdoctor.report.surface import Surface

__all__ = ["REPORTERS", "Reporter", "render"]

Reporter = Callable[[Report, Surface], str]
"""Gives the whole report as text. Whatever heavy it needs, it imports when it is called."""

REPORTERS: Mapping[str, Reporter] = {
    "text": text_report.render,
    "json": json_report.render,
}


def render(report: Report, fmt: str = "text", surface: Surface | None = None) -> str:
    """The report in the format called `fmt`, ready to be written to `surface`."""
    if fmt not in REPORTERS:
        raise UsageError(f"no report format {fmt!r}; there are {', '.join(REPORTERS)}")
    return REPORTERS[fmt](capped(report), surface or Surface())
