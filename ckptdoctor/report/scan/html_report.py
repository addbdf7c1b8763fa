"""The report as one HTML page for people: it loads nothing, runs nothing, and opens in any browser or prints."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Report
from ckptdoctor.report.terminal.surface import Surface

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["check", "render"]

_TEMPLATES = Path(__file__).parent / "templates"


def check() -> None:
    """Raises `UsageError` where jinja2 is not installed."""
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError("the format html needs jinja2: pip install 'ckptdoctor[html]'")


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """The whole page. The same report gives the same page: it holds no date and no name of a machine."""
    from ckptdoctor.report.scan.view import report_view
    from ckptdoctor.version import __version__

    check()
    template = _environment().get_template("report.html.j2")
    return template.render(page=report_view(report), version=__version__) + "\n"


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from ckptdoctor.report.scan.html_view import address, facts, image, plans
    from ckptdoctor.report.wording import words
    from ckptdoctor.text import listing

    def shown(value: object) -> object:
        """Whatever is printed was made harmless first; escaping its markup is left to jinja2."""
        return value if isinstance(value, (Markup, int)) else words(str(value))

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"address": address, "facts": facts, "image": image, "listing": listing, "plans": plans}
    return environment
