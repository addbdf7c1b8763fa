"""MTP layers get the names and the number at which a named engine looks for them, by one of two other treatments."""

from __future__ import annotations

from ckptdoctor.repair.plan.case import Case, Proposed
from ckptdoctor.repair.treatments.mtp import rename_mtp, renumber_mtp

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Another prefix is corrected first; without one it is the number that an engine does not find."""
    mtp = case.facts.mtp
    return rename_mtp.propose(case) if mtp is not None and mtp.other_stem else renumber_mtp.propose(case)
