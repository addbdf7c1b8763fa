"""The table of formats. A new format is one module with `render(report, surface)` and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Report
from ckptdoctor.report.scan import text_report
from ckptdoctor.report.scan.confidence import capped
from ckptdoctor.report.terminal.surface import Surface

__all__ = ["REPORTERS", "Reporter", "check_format", "render"]

Reporter = Callable[[Report, Surface], str]
"""Gives the whole report as text. Whatever heavy it needs, it imports when it is called."""


def _module(name: str) -> Reporter:
    """The reporter in the module `name`, which is imported when it is called: a scan asks for one format."""

    def render_with(report: Report, surface: Surface) -> str:
        text: str = import_module(f"ckptdoctor.report.scan.{name}").render(report, surface)
        return text

    return render_with


REPORTERS: Mapping[str, Reporter] = {
    "text": text_report.render,
    "json": _module("json_report"),
    "sarif": _module("sarif_report"),
    "junit": _module("junit_report"),
    "github": _module("github_report"),
    "markdown": _module("markdown_report"),
    "html": _module("html_report"),
}


def check_format(fmt: str) -> None:
    """Raises `UsageError` for a format that there is not, or that needs a package which is not installed."""
    if fmt not in REPORTERS:
        raise UsageError(f"no report format {fmt!r}; there are {', '.join(REPORTERS)}")
    if fmt == "html":
        from ckptdoctor.report.scan.html_report import check

        check()


def render(report: Report, fmt: str = "text", surface: Surface | None = None) -> str:
    """The report in the format called `fmt`, ready to be written to `surface`."""
    check_format(fmt)
    return REPORTERS[fmt](capped(report), surface or Surface())
