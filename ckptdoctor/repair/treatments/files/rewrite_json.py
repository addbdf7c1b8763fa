"""A JSON file with a key that stands twice, or with a byte order mark, is written again with the values that count.

Python's json keeps the later of two equal keys, and so do the engines, which read with it; so does our reader. The copy
holds that value alone: what an engine reads does not change.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import RewriteJson
from ckptdoctor.repair.plan.case import Case, Proposed
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]


def propose(case: Case, file: str) -> Proposed:
    """The JSON file `file` written again. Refused when it cannot be read or holds a number that would be lost."""
    writable(case, file)
    return Proposed((RewriteJson(file),), subject=file)
