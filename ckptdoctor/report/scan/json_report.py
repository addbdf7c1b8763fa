"""The report as JSON, an interface: `rules/schema/report.schema.json` describes it, tests hold it to that."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ckptdoctor.findings import Examination, Finding, Fix, Ignored, Location, Report, Severity
from ckptdoctor.jsontext import as_plain, dumps
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import skipped_rules

__all__ = ["SCHEMA_VERSION", "as_data", "finding_data", "render"]

SCHEMA_VERSION = 1


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """The report as one JSON text with a line end."""
    return dumps(as_data(report))


def as_data(report: Report) -> dict[str, Any]:
    """The report as the plain object that the JSON text holds."""
    from ckptdoctor.version import __version__

    skipped = sum(skipped_rules(e.skipped) for e in report.examinations)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "checkpoints": [_checkpoint(e) for e in report.examinations],
        "caveats": list(report.caveats),
        "policy": report.policy,
        "remarks": list(report.remarks),
        "failed": [{"path": path, "reason": reason} for path, reason in report.failed],
        "summary": {**{s.value: report.count(s) for s in Severity}, "skipped": skipped},
    }


def _checkpoint(examination: Examination) -> dict[str, Any]:
    return {
        "path": examination.path,
        "draft": as_plain(examination.draft),
        "target": as_plain(examination.target),
        "plans": as_plain(examination.plans),
        "serving": [{field.name: getattr(s, field.name) for field in fields(s)} for s in examination.serving],
        "findings": [finding_data(f) for f in examination.findings],
        "skipped": [{"rule": s.rule, "needs": s.needs} for s in examination.skipped],
        "caveats": list(examination.caveats),
        "ignored": [_ignored(item) for item in examination.ignored],
    }


def _ignored(item: Ignored) -> dict[str, Any]:
    finding = item.finding
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "reason": item.reason,
        "expires": item.expires,
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding as the plain object of the report."""
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "engines": list(finding.engines),
        "message": finding.message,
        "effect": finding.effect,
        "advice": finding.advice,
        "location": _location(finding.location),
        "evidence": as_plain(finding.evidence),
        "fix": _fix(finding.fix),
        "seen_in": list(finding.seen_in),
    }


def _location(location: Location) -> dict[str, Any]:
    parts = {field.name: getattr(location, field.name) for field in fields(location)}
    return {name: value for name, value in parts.items() if value is not None}


def _fix(fix: Fix | None) -> dict[str, str] | None:
    if fix is None:
        return None
    if fix.refused is not None:
        return {"refused": fix.refused}
    told = {"treatment": fix.treatment, "summary": fix.summary, "safety": fix.safety}
    return told if fix.assumption is None else {**told, "assumption": fix.assumption}
