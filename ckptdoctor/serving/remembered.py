"""Plans that were made: one draft is planned once for all releases that answer alike, and once for each who asks.

A plan follows from facts, a launch line, what was said of the training, and the answers of a release to what was asked
of it. A release that answers all of that as another one did gives the same plan under its own name. Plans are kept as
long as the facts of which they speak.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ckptdoctor.facts import Facts
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.layers.provenance import Provenance
from ckptdoctor.serving.plan import LoadPlan
from ckptdoctor.serving.reading import Asked, Contract, Release

__all__ = ["Plans", "remembered"]


@dataclass
class Plans:
    """The plans of one draft for the releases of one engine, each with what was asked for it."""

    made: list[tuple[Asked, LoadPlan]] = field(default_factory=list)
    _known: dict[str, LoadPlan] = field(default_factory=dict)

    def of(self, release: Release, make: Callable[[Release], LoadPlan]) -> LoadPlan:
        """The plan for `release`: one that was made where the release answers as that one's did, else `make`."""
        known = self._known.get(release.version)
        if known is None:
            known = self._known[release.version] = self._found(release, make)
        return known

    def _found(self, release: Release, make: Callable[[Release], LoadPlan]) -> LoadPlan:
        for asked, plan in reversed(self.made):
            if asked.fits(release):
                return replace(plan, version=release.version)
        asked = Asked()
        plan = make(replace(release, asked=asked))
        self.made.append((asked, plan))
        return plan


_Key = tuple[Contract, "Launch | None", Provenance]
_KEPT: dict[int, tuple[weakref.ref[Facts], list[tuple[_Key, Plans]]]] = {}
"""By the id of the facts, which are too large to be compared, and as long as there are these facts."""


def remembered(facts: Facts, contract: Contract, launch: Launch | None, provenance: Provenance) -> Plans:
    """The plans that were made of these very facts for releases of `contract`."""
    at = id(facts)
    kept = _KEPT.get(at)
    if kept is None or kept[0]() is not facts:
        kept = _KEPT[at] = (weakref.ref(facts, lambda gone: _forget(at, gone)), [])
    for (known, line, said), plans in kept[1]:
        if known is contract and line is launch and said == provenance:
            return plans
    plans = Plans()
    kept[1].append(((contract, launch, provenance), plans))
    return plans


def _forget(at: int, gone: weakref.ref[Facts]) -> None:
    # Other facts may have taken the id before this is called.
    kept = _KEPT.get(at)
    if kept is not None and kept[0] is gone:
        del _KEPT[at]
