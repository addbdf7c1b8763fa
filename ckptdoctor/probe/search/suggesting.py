"""What a draft's files, its target and the engines suggest of its wiring: where a search begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.probe.network.anatomy_reading import stated_wiring
from ckptdoctor.probe.network.network import Network
from ckptdoctor.probe.samples.samples import Samples
from ckptdoctor.probe.search.readings import Readings, distinct_columns, of_boundaries, readings_of
from ckptdoctor.probe.wiring import Wiring
from ckptdoctor.serving import contracts
from ckptdoctor.serving.compat import compatibility
from ckptdoctor.serving.layers.training import trained_boundaries

__all__ = ["readings_for"]

_BASES = (1e2, 5e2, 1e3, 1e4, 5e4, 1e5, 1.5e5, 5e5, 1e6, 5e6, 1e7)


def readings_for(facts: Facts, network: Network, samples: Samples) -> Readings:
    """What fits. The files state boundaries; the states of samples that name none are taken in their order."""
    anatomy, suggested = network.anatomy, list(trained_boundaries(facts).readings)
    aux = facts.draft.aux
    if aux.ids is not None:
        suggested += [aux.ids, tuple(i + 1 for i in aux.ids)]
    engines = [name for name, contract in contracts().items() if contract.raw.get("in_scans")]
    for row in compatibility(facts, engines):
        suggested += [b for b in row.plan.captured.values() if b is not None]
    columns = distinct_columns(network, samples)
    known = [c for b in suggested if (c := of_boundaries(b, samples, columns)) is not None and len(c) == anatomy.states]
    stated = stated_wiring(facts, anatomy, samples.columns)
    if known:
        stated = replace(stated, states=known[0])
    elif samples.columns < anatomy.states:
        # Fewer states than fc takes: they can only go straight in, or stand beside the embedding output.
        enough = len(columns) >= anatomy.states
        stated = replace(stated, states=columns[: anatomy.states]) if enough else _without_fc(stated)
    bases = [b for b in (facts.draft.positions.old_base, facts.draft.positions.new_base) if b is not None]
    if facts.draft.writer.rope_base is not None:
        bases.append(facts.draft.writer.rope_base)
    bases += _target_base(facts)
    return readings_of(
        anatomy, samples, stated, network.weights, bases=(*bases, *_BASES), boundaries=suggested, columns=columns
    )


def _without_fc(wiring: Wiring) -> Wiring:
    return replace(wiring, fc=False, states=(0,), norm_before_fc=False, fc_norm=False)


def _target_base(facts: Facts) -> list[float]:
    config: Mapping[str, Any] = facts.target.config if facts.target is not None else {}
    new = config.get("rope_parameters")
    both = (config.get("rope_theta"), new.get("rope_theta") if isinstance(new, Mapping) else None)
    return [float(base) for base in both if isinstance(base, (int, float)) and not isinstance(base, bool) and base > 1]
