"""The boundaries that a draft was trained on, as far as its files tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import Knowledge, knowledge
from ckptdoctor.serving.settings import Settings, evaluate
from ckptdoctor.unknown import Unknown

__all__ = ["Trained", "trained_boundaries"]


@dataclass(frozen=True)
class Trained:
    """What the draft was trained on.

    `boundaries` is None when nothing can be said. `certain` says that only one reading is left;
    `readings` are all that are possible, `because` why the first one is taken. `contested` says that the signs speak
    against each other, so that a release that captures the first reading is open too.
    """

    boundaries: tuple[int, ...] | None
    certain: bool
    readings: tuple[tuple[int, ...], ...] = ()
    because: str = ""
    contested: bool = False


def trained_boundaries(facts: Facts, trained_with: str | None = None, known: Knowledge | None = None) -> Trained:
    """Read the trained boundaries from ids, target depth and the writer's conventions (rules/writers).

    An id equal to the depth proves boundaries, a negative one layer numbers; ids of the default shape
    prove the way of counting that gives the default, unless the writer counts otherwise; else the writer
    decides. Without a known writer both readings stay open.
    """
    known = known or knowledge()
    aux = facts.draft.aux
    if not (facts.draft.block or facts.draft.algorithm in ("eagle3", "peagle")):
        return Trained(None, True, because="it takes the target's final state")
    depth = aux.depth
    if isinstance(depth, Unknown):
        return Trained(None, False, because="the target's depth is not known")
    writer = known.writers.get(trained_with or facts.draft.writer.id)
    conventions: Mapping[str, Any] = writer.conventions if writer else {}
    who = writer.name if writer else "the writer"
    if aux.ids is None:
        if facts.draft.block:
            return Trained(None, False, because="no ids are recorded")
        formula = conventions.get("default_boundaries", ["2", "n//2", "n-3"])
        default = _evaluate(formula, depth)
        return Trained(default, False, (default,), f"no ids are recorded; this is the default of {who}")
    same, shifted = tuple(sorted(aux.ids)), tuple(sorted(i + 1 for i in aux.ids))
    first = next(s for s in aux.sources if s.key == aux.key)
    if first.means == "boundary":
        return Trained(same, True, (same,), f"{aux.key} holds boundaries")
    if first.means == "layer_output":
        return Trained(shifted, True, (shifted,), f"{aux.key} names the layers whose output is taken")
    if trained_with is not None and "aux_ids" in conventions:
        chosen = same if conventions["aux_ids"] == "boundary" else shifted
        return Trained(chosen, True, (chosen,), f"{who} counts so")
    if min(aux.ids) < 0 and max(aux.ids) >= depth:
        return Trained(None, False, because="the ids fit neither way of counting")
    if min(aux.ids) < -1:
        return Trained(None, False, because="an id below -1 names no layer")
    if min(aux.ids) < 0:
        return Trained(shifted, True, (shifted,), "an id is negative, which only layer numbers can be")
    default = (2, depth // 2, depth - 3)
    if max(aux.ids) == depth:
        return Trained(same, True, (same,), "an id equals the depth, which only boundaries can")
    if same == default and conventions.get("aux_ids") == "layer_output":
        # Whoever writes layer numbers may have been given these by hand; the coincidence is no proof.
        return Trained(
            shifted, False, (shifted, same),
            f"{who} names the layers whose output is taken, but the ids are the default boundaries", contested=True,
        )  # fmt: skip
    if same == default:
        return Trained(same, True, (same,), "the ids are the default boundaries")
    if shifted == default:
        return Trained(shifted, True, (shifted,), "the ids are the layers before the default boundaries")
    if conventions.get("aux_ids") == "boundary":
        return Trained(same, False, (same, shifted), f"{who} writes boundaries")
    if conventions.get("aux_ids") == "layer_output":
        return Trained(shifted, False, (shifted, same), f"{who} names the layers whose output is taken")
    return Trained(None, False, (same, shifted), "two ways of counting are possible, and the writer is not known")


def _evaluate(formula: list[Any], depth: int) -> tuple[int, ...]:
    values = [evaluate(str(part), {"n": depth}, Settings({})) for part in formula]
    return tuple(int(v) for v in values if not isinstance(v, Unknown))
