"""The boundaries that a draft was trained on, as far as its files and what a person knows tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.signs import Evidence, holds
from ckptdoctor.facts.knowledge import Knowledge, Writer, knowledge
from ckptdoctor.sentences import numbers
from ckptdoctor.serving.contract.contracts import contracts
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.layers.counting import changes_between, counted_by
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.unknown import Unknown

__all__ = ["Trained", "default_shape", "is_neither", "trained_boundaries"]

Boundaries = tuple[int, ...]


@dataclass(frozen=True)
class Trained:
    """What the draft was trained on.

    `boundaries` is None when nothing can be said. `certain` says that the files or a named tool prove them;
    `readings` are all that are possible, the likely one first, `because` why that one is taken. `contested` says that
    the signs speak against each other, so that a release that captures the first reading is open too. `supported`: more
    speaks for the first reading than the shape of the ids, which is no proof of anything.
    """

    boundaries: Boundaries | None
    certain: bool
    readings: tuple[Boundaries, ...] = ()
    because: str = ""
    contested: bool = False
    supported: bool = True


def is_neither(readings: Sequence[Boundaries], captured: Sequence[int]) -> bool:
    """Whether these captured boundaries are none of the readings: other layers, however the ids are counted."""
    return bool(readings) and tuple(captured) not in readings


def default_shape(depth: int) -> Boundaries:
    """The boundaries that SGLang, vLLM, llama.cpp, the EAGLE reference and most trainers take by themselves."""
    return 2, depth // 2, depth - 3


def trained_boundaries(facts: Facts, provenance: Provenance = NOTHING_SAID, known: Knowledge | None = None) -> Trained:
    """Read the trained boundaries from ids, target depth, and what is said or known of the writer (rules/writers).

    Proofs are a key with one meaning, a negative id (layer numbers), an id equal to the depth (boundaries), a named
    release whose counting was executed, and a named tool that always counts in one way. The writer that the files show
    and ids of the default shape are signs: both readings stay, the likely one first.
    """
    known = known or knowledge()
    aux = facts.draft.aux
    if not facts.draft.kind.captures_states:
        return Trained(None, True, because="it takes the target's final state")
    depth = aux.depth
    if isinstance(depth, Unknown):
        return Trained(None, False, because="the target's depth is not known")
    writer = known.writers.get(provenance.trained_with or facts.draft.writer.id)
    if aux.ids is None:
        return _without_ids(facts, writer, depth)
    same, shifted = tuple(sorted(aux.ids)), tuple(sorted(i + 1 for i in aux.ids))
    first = next(s for s in aux.sources if s.key == aux.key)
    if first.means == "boundary":
        return Trained(same, True, (same,), f"{aux.key} holds boundaries")
    named, doubt = _captured(facts, provenance, writer, same, shifted, depth)
    if first.means == "layer_output":
        by_key = Trained(shifted, True, (shifted,), f"{aux.key} names the layers whose output is taken")
        return by_key if named is None else named
    proof = _proof(aux.ids, same, shifted, depth)
    found = proof or named or _likely(facts, provenance, writer, same, shifted, depth)
    return replace(found, because=doubt) if doubt and not found.certain else found


def _without_ids(facts: Facts, writer: Writer | None, depth: int) -> Trained:
    if facts.draft.block:
        return Trained(None, False, because="no ids are recorded")
    formula = _conventions(writer).get("default_boundaries", ["2", "n//2", "n-3"])
    default = _evaluate(formula, depth)
    who = writer.name if writer else "the writer"
    return Trained(default, False, (default,), f"no ids are recorded; this is the default of {who}")


def _proof(ids: Sequence[int], same: Boundaries, shifted: Boundaries, depth: int) -> Trained | None:
    """What the numbers alone decide."""
    if min(ids) < 0 and max(ids) >= depth:
        return Trained(None, False, because="the ids fit neither way of counting")
    if min(ids) < -1:
        return Trained(None, False, because="an id below -1 names no layer")
    if min(ids) < 0:
        return Trained(shifted, True, (shifted,), "an id is negative, which only layer numbers can be")
    if max(ids) == depth:
        return Trained(same, True, (same,), "an id equals the depth, which only boundaries can")
    return None


def _captured(
    facts: Facts, provenance: Provenance, writer: Writer | None, same: Boundaries, shifted: Boundaries, depth: int
) -> tuple[Trained | None, str]:
    """What the named release that captured makes of the ids, or why it decides nothing."""
    if provenance.captured_with is None:
        return None, ""
    engine, version = provenance.captured_with
    counted = counted_by(facts, engine, version)
    if counted.boundaries is None:
        return None, counted.why
    boundaries = counted.boundaries
    name = f"{contracts()[engine].name} {version}"
    if min(boundaries) < 0 or max(boundaries) > depth:
        return None, f"{name} would have been asked for boundaries {numbers(boundaries)}, which do not exist"
    own = _own_reading(writer, same, shifted)
    translated = provenance.written_for  # a repair wrote them in the numbers of this release
    if (
        not translated
        and own is not None
        and own != boundaries
        and engine not in _conventions(writer).get("captured_by", ())
    ):
        # The tool translates its ids for the engine, or the two statements are of two trainings.
        because = f"{writer.name if writer else ''} means boundaries {numbers(own)} by these ids, and {name} captures "
        because += f"{numbers(boundaries)} for them"
        return Trained(own, False, (own, boundaries), because, contested=True), ""
    if counted.executed or (own == boundaries and provenance.trained_with is not None):
        return Trained(boundaries, True, (boundaries,), f"{name} captured them, and counts so"), ""
    other = shifted if boundaries == same else same
    because = f"{name} captured them, and counts so as far as its source was read"
    return Trained(boundaries, False, (boundaries, other), because), ""


def _likely(
    facts: Facts, provenance: Provenance, writer: Writer | None, same: Boundaries, shifted: Boundaries, depth: int
) -> Trained:
    """What the writer and the shape of the ids speak for. A named tool decides where it counts in one way."""
    conventions, by_writer = _conventions(writer), _own_reading(writer, same, shifted)
    moved = by_writer is not None and _holds(facts, conventions.get("aux_ids_moved_if"))
    named = provenance.trained_with is not None and by_writer is not None
    release = changes_between(facts, conventions.get("captured_by", ()) if by_writer else _in_scans(), named)
    who = writer.name if writer is not None else ""
    if named and by_writer is not None and not moved and release is None:
        return Trained(by_writer, True, (by_writer,), f"{who} counts so")
    default = default_shape(depth)
    shape = same if same == default else shifted if shifted == default else None
    looks = "the default boundaries" if shape == same else "the layers before the default boundaries"
    if by_writer is None:
        why = f"{who} writes no ids, so somebody added these" if writer else "the writer is not known"
        why = f"the ids look like {looks}, but {why}" if shape else f"two ways of counting are possible, and {why}"
    else:
        why = f"{who} writes boundaries" if by_writer == same else f"{who} names the layers whose output is taken"
    if by_writer == shifted and shape == same and release is None and not moved:
        # Whoever writes layer numbers may have been given these by hand; the coincidence is no proof.
        because = f"{why}, but the ids are the default boundaries"
        return Trained(shifted, False, (shifted, same), because, contested=True)
    if by_writer is not None and shape not in (None, by_writer):
        why = f"the ids are {looks}, though {why}"
    if moved:
        why = f"{why}, but adds one when it exports some drafts"
    why = release or why
    preferred = shape or (None if moved else by_writer)
    if preferred is None:
        return Trained(None, False, (same, shifted), why)
    other = shifted if preferred == same else same
    return Trained(preferred, False, (preferred, other), why, supported=by_writer == preferred)


def _own_reading(writer: Writer | None, same: Boundaries, shifted: Boundaries) -> Boundaries | None:
    """What the writer means by the ids that it writes; None for one that is not known or writes none."""
    conventions = _conventions(writer)
    if conventions.get("records_ids") in (None, "never"):
        return None  # ids in its drafts were added by somebody else
    return {"boundary": same, "layer_output": shifted}.get(str(conventions.get("aux_ids")))


def _conventions(writer: Writer | None) -> Mapping[str, Any]:
    return writer.conventions if writer else {}


def _in_scans() -> list[str]:
    return [name for name, contract in contracts().items() if contract.raw.get("in_scans")]


def _holds(facts: Facts, conditions: Mapping[str, Any] | None) -> bool:
    if conditions is None:
        return False
    names = tuple(facts.tensors)
    return holds(conditions, Evidence(names, facts.config, frozenset(), frozenset(), (), (), facts.files.kind))


def _evaluate(formula: list[Any], depth: int) -> Boundaries:
    values = [evaluate(str(part), {"n": depth}, Settings({})) for part in formula]
    return tuple(int(v) for v in values if not isinstance(v, Unknown))
