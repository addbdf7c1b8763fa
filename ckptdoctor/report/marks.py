"""What tells two findings apart, for baselines and for services that follow a finding over time."""

from __future__ import annotations

import hashlib
import json

from ckptdoctor.findings import Finding
from ckptdoctor.report.scan.json_report import as_plain

__all__ = ["fingerprint"]


def fingerprint(finding: Finding) -> str:
    """24 hex digits of the rule, the place (without the line, which moves) and the values seen; not of the words."""
    place = finding.location
    parts = [finding.rule, place.file, place.tensor, place.config_key, sorted(finding.engines)]
    values = json.dumps([*parts, as_plain(finding.evidence)], sort_keys=True, default=str)
    return hashlib.sha256(values.encode()).hexdigest()[:24]
