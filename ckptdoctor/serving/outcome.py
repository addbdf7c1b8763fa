"""The outcome of a plan, and why.

`refused`: it stops. `broken`: it runs and accepts next to nothing (a projection left random, a far layer captured, ids
unmapped). `degraded`: it runs, and something is not as it was trained (a norm at ones, layers shifted by one).
`served`: every parameter is accounted for, and nothing is open. `unknown`: something is open that decides between
the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.sentences import numbers
from ckptdoctor.serving.config.other_class import of_another_class
from ckptdoctor.serving.layers.capture import Captured
from ckptdoctor.serving.layers.layer_reasons import layer_reasons
from ckptdoctor.serving.layers.training import Trained
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.parameters.own_matrices import own_embedding, own_head
from ckptdoctor.serving.plan import LoadPlan, Refusal, Stored
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import listing, plural, show
from ckptdoctor.unknown import known_or

__all__ = ["Wires", "settle", "takes_states"]

_STAGES = {"config": 0, "class": 1, "construct": 2, "start": 3, "load": 4, "first_forward": 5}
# What is open could make a degraded draft a refused one; a broken one is of no use either way.
_LEVELS = (("broken", Outcome.BROKEN), ("open", Outcome.UNKNOWN), ("degraded", Outcome.DEGRADED))
"""What reasons of a level make of a plan; of several levels the first one counts."""
_TAKEN = "the target's takes its place"
# The tensors that belong to a flag: where the flag is told, they are not told again.
_OF_FLAG = {"norm_before_fc": "input_norm.", "fc_norm": "fc_norm."}
_WRONG_MAPS = ("absolute", "offset_twice", "damaged", "zeros_never_loaded")
# Parameters that training changes and that not every release has a place for.
_LEARNED = (
    "q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias", "gate_proj.bias", "up_proj.bias", "down_proj.bias",
    "q_norm", "k_norm", "fc_norm", "input_norm.", "fc.bias", "mask_hidden", "markov_head", "prefix_gru", "embed_proj",
    "attention_conv", "mlp_conv", "candidate_selector", "refiner_head",
)  # fmt: skip


@dataclass(frozen=True)
class Wires:
    """What flows besides parameters: variants of the contract, and the flags as this release reads them.

    `aux_count` is the number of states that fc is built for, `width` that of one state, `hidden` the
    draft's own width. `translated` says that the config is a translation of the one in the file.
    `algorithm_matches` is False when the launch line asks for a method that passes
    the final state alone to a draft of captured states. `places` is where this release looks for each flag.
    """

    fc_runs: str | None
    residual: str | None
    tied: bool
    map_absent: str | None
    honoured: Mapping[str, bool]
    places: Mapping[str, Sequence[str]]
    aux_count: int | None
    width: int | None
    hidden: int | None
    algorithm_matches: bool
    translated: bool = False


def takes_states(facts: Facts) -> bool:
    """Whether drafts of this kind take captured states of the target, not its final state."""
    return facts.draft.kind.captures_states


def settle(plan: LoadPlan, facts: Facts, captured: Captured, trained: Trained, wires: Wires) -> LoadPlan:
    """The finished plan: fates of replaced tensors, wiring, loud errors, outcome and reasons."""
    shared = {p.name: p.shared for p in reversed(plan.parameters)}
    stored = tuple(_replaced(s, shared) for s in plan.stored)
    if not wires.algorithm_matches:
        captured = replace(captured, phases=dict.fromkeys(captured.phases), ids=None, ids_from=None, final=True)
    by_states = takes_states(facts)
    fc = _fc(facts, captured, wires) if by_states else None
    if by_states and captured.final and _passes_over_fc(captured, wires):
        # No release that applies no fc reads what it built for it.
        plan = replace(plan, parameters=tuple(replace(p, used=p.used and not _is_fc(p.name)) for p in plan.parameters))
    late = _state_count(captured, wires, fc) if by_states else ()
    if not plan.errors:
        late = (*late, *(_state_width(facts, wires, fc) if by_states else _own_width(facts)))
    of_layers = (replace(error, about="layers") for error in captured.refusals)
    if wires.map_absent == "refuse" and plan.wiring.get("map") is None:
        late = (Refusal("start", "no d2t is stored, and this release does not start without one"), *late)
    errors = tuple(sorted((*plan.errors, *of_layers, *late), key=lambda e: _STAGES[e.stage]))
    flags = _flags(facts, wires) if by_states and not facts.draft.block else []
    found = [*_parameters(plan), *_wiring(plan, facts, wires, fc), *flags, *_dropped(stored, facts, flags)]
    if by_states:
        found += layer_reasons(captured, trained)
    wiring: dict[str, Any] = {
        "fc": fc, "final_state": captured.final, "ids": captured.ids, "ids_from": captured.ids_from,
        "residual": wires.residual, "map": plan.wiring.get("map"), "trained_because": trained.because,
    }  # fmt: skip
    opens = (*plan.opens, *captured.opens, *(r for r in found if r.level in ("open", "aside")))
    causes = tuple(r for r in found if r.level not in ("open", "aside"))
    levels = {reason.level for reason in (*causes, *opens)}
    outcome = Outcome.REFUSED if errors else next((o for level, o in _LEVELS if level in levels), Outcome.SERVED)
    settled = replace(
        plan, stored=stored, captured=captured.phases, trained=trained.boundaries, wiring=wiring, errors=errors,
        outcome=outcome, causes=causes, opens=opens,
        remarks=(*plan.remarks, *captured.remarks, *_unread_ids(facts, captured)),
    )  # fmt: skip
    return of_another_class(settled, facts) if plan.other_class else settled


def _unread_ids(facts: Facts, captured: Captured) -> list[str]:
    """A remark where the config has ids at a place that this release does not look at."""
    aux = facts.draft.aux
    if captured.final or captured.ids is not None or aux.key is None or not isinstance(aux.ids, tuple):
        return []
    if not any(b is not None for b in captured.phases.values()):
        return []
    return [f"{aux.key} is not read by this release; it captures what it takes by default"]


def _replaced(stored: Stored, shared: Mapping[str, bool]) -> Stored:
    """A tensor whose parameter the target's tensor replaces (`shared`, by its name) is dropped in the end."""
    if stored.fate == "used" and stored.parameter is not None and shared.get(stored.parameter, False):
        return replace(stored, fate="dropped", why=_TAKEN)
    return stored


def _parameters(plan: LoadPlan) -> list[Reason]:
    lost = [p for p in plan.parameters if p.used and p.state in ("initial", "partly")]
    # A bias that torch drew is small; one that is memory as it was can be anything.
    filled = [p.name for p in lost if p.initial in ("random", "empty")]
    biases = [p.name for p in lost if p.initial == "random" and p.name.endswith(".bias")]
    ones = [p.name for p in lost if p.initial == "ones"]
    found = []
    if filled and filled != biases:
        of = len(plan.parameters)
        found.append(Reason("broken", "parameters_left", {"count": len(filled), "of": of}, tuple(filled)))
    elif biases:
        found.append(Reason("degraded", "biases_left", {"count": len(biases)}, tuple(biases)))
    if resized := tuple(s.name for s in plan.stored if s.resized):
        found.append(Reason("broken", "size_changed", {"count": len(resized)}, resized))
    if ones:
        found.append(Reason("degraded", "norms_at_ones", {"count": len(ones)}, tuple(ones)))
    return found


def _fc(facts: Facts, captured: Captured, wires: Wires) -> str | None:
    """Whether fc is applied: `applied`, `skipped` (and the draft runs on the raw state), or None without fc."""
    if known_or(facts.draft.fc, None) is None:
        return None
    return "skipped" if _passes_over_fc(captured, wires) else "applied"


def _passes_over_fc(captured: Captured, wires: Wires) -> bool:
    """Whether the state that arrives goes on without fc."""
    if wires.fc_runs == "width_differs":
        extend = captured.phases.get("extend")
        states = 1 if captured.final else wires.aux_count if extend is None else len(extend)
        width = None if states is None or wires.width is None else states * wires.width
        return width is not None and width == wires.hidden
    return wires.fc_runs == "unless_use_aux_is_false" and captured.final


def _is_fc(name: str) -> bool:
    return name.removeprefix("model.") in ("fc.weight", "fc.bias")


def _state_count(captured: Captured, wires: Wires, fc: str | None) -> tuple[Refusal, ...]:
    """A loud error at the first forward when another number of states arrives than fc takes."""
    extend = captured.phases.get("extend")
    if extend is None or captured.final or fc == "skipped" or wires.aux_count is None:
        return ()
    if len(extend) == wires.aux_count:
        return ()
    found = plural(len(extend), "state is captured", "states are captured")
    return (Refusal("first_forward", f"{found} {numbers(extend)}, and fc takes {wires.aux_count}", "layers"),)


def _state_width(facts: Facts, wires: Wires, fc: str | None) -> tuple[Refusal, ...]:
    """A loud error at the first forward when the target's states are of another width than fc was built for."""
    wide = None if facts.target is None else known_or(facts.target.hidden_size, None)
    if fc != "applied" or wires.width is None or wide is None or wide == wires.width:
        return ()
    return (Refusal("first_forward", f"the target's states are {wide} wide, and fc takes states of {wires.width}"),)


def _own_width(facts: Facts) -> tuple[Refusal, ...]:
    """The same for a draft of the final state, whose fc takes twice its own width."""
    wide = None if facts.target is None else known_or(facts.target.hidden_size, None)
    own = known_or(facts.draft.hidden_size, wide)
    if not facts.draft.kind.fc_takes_embedding or wide is None or wide == own:
        return ()
    return (Refusal("first_forward", f"the target's state is {wide} wide, and the draft's fc takes one of {own}"),)


def _wiring(plan: LoadPlan, facts: Facts, wires: Wires, fc: str | None) -> list[Reason]:
    found: list[Reason] = []
    vocab = facts.vocab
    stored = known_or(facts.draft.fc, None)
    several = stored is None or (stored.states or 0) > 1
    if fc == "skipped" and (facts.draft.aux.used or several):
        found.append(Reason("broken", "fc_skipped"))
    reduced = vocab.reduced is True
    mapped = plan.wiring.get("map") is not None
    if reduced and wires.tied and facts.draft.head is not None:
        found.append(Reason("broken", "head_is_embedding", {"draft_size": vocab.draft_size}))
    if reduced and any(p.name.endswith("lm_head.weight") and p.shared for p in plan.parameters):
        found.append(Reason("broken", "head_of_target"))
    if reduced and not mapped and wires.map_absent == "identity":
        if vocab.map is None:
            found.append(Reason("broken", "map_absent"))
        elif vocab.verdict != "zeros_first":
            found.append(Reason("broken", "map_ignored"))
    if not mapped and wires.map_absent == "token_zero":
        found.append(Reason("broken", "map_token_zero"))
    verdict = known_or(vocab.verdict, "")
    if mapped and verdict in _WRONG_MAPS:
        found.append(Reason("broken", "map_wrong", {"verdict": verdict.replace("_", " ")}))
    return found


def _flags(facts: Facts, wires: Wires) -> list[Reason]:
    """Flags that the config sets and this release does not honour, or takes otherwise."""
    flags = facts.draft.flags
    found = []
    if flags.norm_before_residual is True and wires.residual == "before_norm":
        found.append(Reason("degraded", "residual_after_norm"))
    elif flags.norm_before_residual is True and not wires.honoured.get("norm_before_residual"):
        found += _elsewhere("norm_before_residual", wires)
    if not flags.norm_before_residual and wires.honoured.get("norm_before_residual"):
        found.append(Reason("degraded", "residual_assumed"))
    for name in ("norm_before_fc", "fc_norm", "norm_output"):
        if getattr(flags, name) is True and not wires.honoured.get(name):
            found += _elsewhere(name, wires) or [Reason("degraded", name)]
    return found


def _elsewhere(flag: str, wires: Wires) -> list[Reason]:
    """A flag that this release knows, and looks for at other places than the one where it is set."""
    places = wires.places.get(flag)
    if places and wires.translated:
        return [Reason("degraded", "flag_untranslated", {"flag": flag})]
    return [Reason("degraded", "flag_elsewhere", {"flag": flag, "places": listing(places, 3)})] if places else []


def _dropped(stored: Sequence[Stored], facts: Facts, flags: Sequence[Reason]) -> list[Reason]:
    """Trained tensors that land nowhere and that no flag explains; an embedding that was trained and is replaced."""
    found = []
    told = tuple(_OF_FLAG[flag] for r in flags if (flag := r.values.get("flag", r.kind)) in _OF_FLAG)
    lost = [show(s.name) for s in stored if s.fate.startswith("dropped") and any(w in s.name for w in _LEARNED)
            and not s.name.removeprefix("model.").startswith(told)]  # fmt: skip
    if lost:
        found.append(Reason("degraded", "tensors_dropped", {}, tuple(lost)))
    biases = facts.medusa.biases if facts.medusa is not None else ()
    left_out = [show(s.name) for s in stored if s.fate.startswith("dropped") and s.name in biases]
    if left_out:
        found.append(Reason("degraded", "biases_dropped", {}, tuple(left_out)))
    trained = facts.draft.kind.trains_embedding or facts.draft.flags.embed_requires_grad is True
    trained = trained or own_embedding(facts)
    replaced = [show(s.name) for s in stored if s.fate == "dropped" and s.name.endswith("embed_tokens.weight")]
    if replaced and trained:
        found.append(Reason("degraded", "embedding_replaced", {"name": replaced[0]}))
    heads = [s for s in stored if s.fate == "dropped" and s.why == _TAKEN and s.name.endswith("lm_head.weight")]
    cosine = own_head(facts)
    if heads and cosine is not None and facts.vocab.reduced is False:
        found.append(Reason("degraded", "head_replaced", {"name": show(heads[0].name), "cosine": cosine}))
    return found
