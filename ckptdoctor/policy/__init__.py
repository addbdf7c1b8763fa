"""What a project asks of its drafts: engines, severities, exceptions, a baseline. Applied to what a scan found."""

from __future__ import annotations

from ckptdoctor.policy.applying import applied, check_rules, counts
from ckptdoctor.policy.baseline import Baseline, read_baseline, write_baseline
from ckptdoctor.policy.project import NO_POLICY, Exemption, Policy, find_project, load_policy

__all__ = [
    "NO_POLICY",
    "Baseline",
    "Exemption",
    "Policy",
    "applied",
    "check_rules",
    "counts",
    "find_project",
    "load_policy",
    "read_baseline",
    "write_baseline",
]
