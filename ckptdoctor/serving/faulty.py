"""What is planned where ckptdoctor itself is wrong: nothing but that, for this one release."""

from __future__ import annotations

from collections.abc import Callable

from ckptdoctor.closures import InvalidExpression
from ckptdoctor.findings import OWN_FAULTS, Fault
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.plan import LoadPlan
from ckptdoctor.serving.reading import Release
from ckptdoctor.serving.words import Reason

__all__ = ["plan_or_fault"]


def plan_or_fault(release: Release, make: Callable[[Release], LoadPlan]) -> LoadPlan:
    """The plan that `make` makes for `release`; one of which nothing is known where it meets a fault of ckptdoctor."""
    try:
        return make(release)
    except (*OWN_FAULTS, InvalidExpression) as error:
        fault = Fault.of("plan", release.version, error)
        opens = (Reason("open", "fault", {"problem": fault.problem}),)
        return LoadPlan(
            engine=release.contract.engine, version=release.version, model_class=None, opens=opens,
            outcome=Outcome.UNKNOWN,
        )  # fmt: skip
