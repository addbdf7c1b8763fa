"""A field of config.json is written in a second place as well, for readers that look there alone.

Generic: the rule says which field and where to. Nothing is taken away, so readers of the first place are not touched.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]


def propose(case: Case, key: str, to: str) -> Proposed:
    """The value at the dotted `key` at the dotted key `to` too. Refused where something stands there already."""
    writable(case)
    config = case.facts.config
    field = config.at(key)
    if field is None:
        raise RefusedError("absent", at=key)
    if config.at(to) is not None:
        raise RefusedError("taken", at=to)
    return Proposed((SetConfig(to, field.value),), subject=to)
