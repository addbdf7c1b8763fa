"""The summary of an audit as one HTML page: no script, nothing from elsewhere, for light and dark."""

from __future__ import annotations

from pathlib import Path

from ckptdoctor.audit.summary import SHOWN, Summary
from ckptdoctor.audit.summary_text import OUTCOMES, headline, tally
from ckptdoctor.errors import UsageError
from ckptdoctor.text import show
from ckptdoctor.version import __version__

__all__ = ["need_jinja", "render_html"]

_TEMPLATE = Path(__file__).with_name("summary.html.j2")
_LIMIT = 4096


def need_jinja() -> None:
    """Raises `UsageError` where the template engine is not installed: better before an audit than after it."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise UsageError(
            "--format html needs the package jinja2; install it with: pip install 'ckptdoctor[html]'"
        ) from None


def render_html(summary: Summary) -> str:
    """The page. Raises `UsageError` without jinja2."""
    need_jinja()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["safe_text"] = lambda text: show(text, _LIMIT)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    page = template.render(
        summary=summary, headline=headline(summary), version=__version__, tally=tally, outcomes=OUTCOMES, shown=SHOWN
    )
    return page if page.endswith("\n") else page + "\n"
