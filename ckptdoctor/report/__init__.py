"""Report: findings to text for people or JSON for programs. Knows nothing of files, engines or rules."""

from __future__ import annotations

from ckptdoctor.report.reporters import REPORTERS, Reporter, render
from ckptdoctor.report.scan.confidence import capped
from ckptdoctor.report.terminal.surface import Surface, surface_for

__all__ = ["REPORTERS", "Reporter", "Surface", "capped", "render", "surface_for"]
