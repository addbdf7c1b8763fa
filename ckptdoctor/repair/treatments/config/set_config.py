"""One field of the config gets another value, in the place where it stands.

Generic: the rule says which field and which value, and in `refuse` when not to (by the name of a sentence).
"""

from __future__ import annotations

from typing import Any

from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import set_field

__all__ = ["propose"]


def propose(
    case: Case,
    field: str,
    value: Any,
    refuse: str | None = None,
    home: str | None = None,
    without_tensors: str | None = None,
) -> Proposed:
    """The field `field` (a name of rules/facts/fields.yaml, or a dotted key) set to `value`; `home` is where it goes
    when it stands nowhere.

    `refuse` names a refusal, None for none. `without_tensors` is an end of names: with such a tensor stored, nothing is
    changed. Null is never written.
    """
    if refuse is not None:
        raise RefusedError(refuse, field=field, value=value)
    if value is None:
        raise RefusedError("null", field=field)
    if without_tensors is not None:
        stored = next((name for name in case.checkpoint.tensors if name.endswith(without_tensors)), None)
        if stored is not None:
            raise RefusedError("stored", field=field, value=value, name=stored)
    return Proposed(set_field(case, field, value, home), subject=field)
