"""The report as JSON, an interface: its shapes are in `document`, `rules/schema/report.schema.json` describes it."""

from __future__ import annotations

from typing import Any

from ckptdoctor.findings import Report
from ckptdoctor.jsontext import dumps
from ckptdoctor.report.scan import document
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.shapes import encode

__all__ = ["as_data", "render"]


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """The report as one JSON text with a line end."""
    return dumps(as_data(report))


def as_data(report: Report) -> dict[str, Any]:
    """The report as the plain object that the JSON text holds."""
    return encode(document.Report, report)
