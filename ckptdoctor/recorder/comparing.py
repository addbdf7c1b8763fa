"""From an observation and a plan to two lines: what was seen, and how it differs from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from ckptdoctor.recorder.observation import Observation
from ckptdoctor.recorder.words import say
from ckptdoctor.sentences import numbers
from ckptdoctor.text import listing

if TYPE_CHECKING:
    from ckptdoctor.serving import LoadPlan

__all__ = ["Verdict", "seen_line", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """One line, whether it is a good one, and the kinds of its problems."""

    line: str
    good: bool
    problems: tuple[str, ...] = ()


Part = tuple[str, str]


def verdict(seen: Observation, plan: LoadPlan | None, why: str) -> Verdict:
    """How what was seen differs from the plan, or that it does not. `why` says why there is no plan."""
    found = [*_flow(seen, plan), *_parameters(seen, plan), *_map(seen, plan)]
    if plan is not None:
        found += [*_captured(seen, plan), *_shared(seen, plan)]
    if found:
        kinds = tuple(kind for kind, _ in found)
        parts = [text for _, text in found]
        if {"fc_skipped", "not_finite"} & set(kinds):
            parts.append(say("consequence", "nothing"))
        return Verdict(say("verdict", "problems", problems=_joined(parts)), False, kinds)
    if plan is None:
        return Verdict(say("verdict", "no_plan", summary=_summary(seen), why=why), True)
    if plan.outcome not in ("served", "unknown"):
        reasons = "; ".join(plan.reasons) or listing((e.reason for e in plan.errors), 3)
        outcome = say("outcome", plan.outcome)
        line = say("verdict", "planned_badly", served_by=seen.served_by, outcome=outcome, reasons=reasons)
        return Verdict(line, False, ("plan",))
    return Verdict(say("verdict", "planned", served_by=seen.served_by, summary=_summary(seen)), True)


def seen_line(seen: Observation) -> str:
    """All figures of one look in one line."""
    where = f"{seen.served_by}, " if seen.engine else ""
    phase = f" ({seen.phase})" if seen.phase else ""
    parts = [
        say("seen", "pass", where=where, model_class=seen.model_class, tokens=seen.tokens, phase=phase,
            width=seen.width, dtype=seen.dtype)
    ]  # fmt: skip
    lengths = listing((f"{n:.3g}" for n in seen.norms), 16)
    if seen.states is None:
        parts[0] += ", " + say("seen", "odd", state=seen.state, norms=lengths)
    else:
        parts[0] += " = " + say("seen", "states", count=_states(seen.states), state=seen.state, norms=lengths)
    if seen.fc_takes is None:
        parts.append(say("seen", "no_fc"))
    else:
        parts.append(say("seen", "fc_ran" if seen.fc_ran else "fc_skipped", takes=seen.fc_takes))
    names = listing(seen.norms_before_fc, 8)
    parts.append(say("seen", "norms", names=names) if seen.norms_before_fc else say("seen", "no_norms"))
    if seen.map is None:
        parts.append(say("seen", "no_map"))
    else:
        m = seen.map
        parts.append(
            say("seen", "map", at=m.at, count=m.count, holds=say("holds", m.holds), lowest=m.lowest, highest=m.highest,
                zeros=m.zeros)
        )  # fmt: skip
    for name, whose in (("embedding", seen.embedding), ("head", seen.head)):
        if whose is not None:
            parts.append(say("seen", name, whose=say("whose", whose)))
    parts += _written(seen)
    if seen.captures_none:
        parts.append(say("seen", "captures_none"))
    elif seen.captured:
        parts.append(say("seen", "captured", captured=_phases(seen)))
    return _joined([*parts, *seen.remarks])


def _flow(seen: Observation, plan: LoadPlan | None) -> list[Part]:
    found: list[Part] = []
    served = seen.served_by
    fits = _fits(seen.states_fc_takes)
    planned = plan.captured.get(seen.phase or "extend") if plan is not None else None
    skips = plan is not None and plan.wiring.get("fc") == "skipped"
    if seen.fc_takes is not None and not seen.fc_ran:
        layers = "odd" if seen.states is None else "one" if seen.states == 1 else "several"
        text = say("problem", "fc_skipped", width=seen.width, layers=say("layers", layers, count=seen.states or 0),
                   takes=seen.fc_takes, fits=fits)  # fmt: skip
        if skips:
            text += "; " + _line("expects_skip", served_by=served)
        elif planned:
            text += "; " + _line("expects", served_by=served, planned=numbers(planned))
        found.append(("fc_skipped", text))
    elif seen.fc_takes is not None and seen.width != seen.fc_takes:
        found.append(("fc_refuses", say("problem", "fc_refuses", width=seen.width, takes=seen.fc_takes, fits=fits)))
    elif seen.fc_takes is not None and skips:
        found.append(("fc_unplanned", say("problem", "fc_unplanned", served_by=served)))
    elif seen.states is None:
        found.append(("width_odd", say("problem", "width_odd", width=seen.width, state=seen.state)))
    if seen.captures_none and (seen.states_fc_takes or 0) > 1:
        found.append(("captures_none", say("problem", "captures_none", takes=seen.fc_takes, fits=fits)))
    if not all(isfinite(n) for n in seen.norms):
        found.append(("not_finite", say("problem", "not_finite")))
    return found


def _parameters(seen: Observation, plan: LoadPlan | None) -> list[Part]:
    if seen.unwritten is None:
        return []
    map_at = seen.map.at if seen.map is not None else None
    left = {name for name in seen.unwritten if name != map_at}
    if plan is None or not plan.parameters:
        return [("unwritten", say("problem", "unwritten_alone", names=listing(sorted(left))))] if left else []
    planned = {p.name for p in plan.parameters if p.used and p.state in ("initial", "partly")}
    unread = {p.name for p in plan.parameters if not p.used}
    known = {p.name for p in plan.parameters}
    groups = (
        ("unwritten", left - planned - unread),
        ("unwritten_planned", left & planned),
        ("written_after_all", {p for p in planned - set(seen.unwritten) if p in known and p != map_at}),
    )
    return [
        (kind, say("problem", kind, names=listing(sorted(names)), served_by=seen.served_by))
        for kind, names in groups
        if names
    ]


def _map(seen: Observation, plan: LoadPlan | None) -> list[Part]:
    planned = plan.wiring.get("map") is not None if plan is not None else None
    if seen.map is None:
        return [("map_missing", say("problem", "map_missing", served_by=seen.served_by))] if planned else []
    found = []
    if not seen.map.written:
        found.append("map_unwritten")
    elif planned is False:
        found.append("map_unplanned")
    if seen.vocabulary is not None and seen.map.highest >= seen.vocabulary:
        found.append("map_beyond")
    elif seen.map.repeated:
        found.append("map_repeated")
    values = {
        "at": seen.map.at, "highest": seen.map.highest, "repeated": seen.map.repeated, "vocabulary": seen.vocabulary,
        "served_by": seen.served_by,
    }  # fmt: skip
    return [(kind, say("problem", kind, **values)) for kind in found]


def _captured(seen: Observation, plan: LoadPlan) -> list[Part]:
    found: list[Part] = []
    told: set[tuple[int, ...]] = set()
    for phase, boundaries in seen.captured.items():
        planned = plan.captured.get(phase)
        if planned is None or tuple(planned) == boundaries or boundaries in told:
            continue
        told.add(boundaries)
        values = {"seen": numbers(boundaries), "phase": phase.replace("_", " "), "planned": numbers(planned)}
        found.append(("captured", say("problem", "captured", served_by=seen.served_by, **values)))
    return found


def _shared(seen: Observation, plan: LoadPlan) -> list[Part]:
    found: list[Part] = []
    for name, end, whose in (
        ("embedding", "embed_tokens.weight", seen.embedding),
        ("head", "lm_head.weight", seen.head),
    ):
        parameter = next((p for p in plan.parameters if p.name.endswith(end)), None)
        if whose is None or parameter is None:
            continue
        planned = "shared" if parameter.shared else "own"
        if planned != whose:
            values = {"seen": say("whose", whose), "planned": say("whose", planned)}
            found.append((name, say("problem", name, served_by=seen.served_by, **values)))
    return found


def _summary(seen: Observation) -> str:
    count = _states(seen.states) if seen.states is not None else str(seen.width)
    parts = [say("summary", "fc", count=count, state=seen.state)] if seen.fc_takes is not None else []
    if seen.captured:
        parts.append(say("summary", "boundaries", captured=_phases(seen)))
    parts.append(say("summary", "map", at=seen.map.at) if seen.map is not None else say("summary", "no_map"))
    return ", ".join(parts)


def _written(seen: Observation) -> list[str]:
    if seen.unwritten is None:
        return []
    if not seen.unwritten:
        return [say("seen", "all_written")]
    groups = (("unwritten", "never"), ("partly", "partly"))
    names = {kind: [n for n, how in seen.unwritten.items() if how == state] for kind, state in groups}
    return [say("seen", kind, names=listing(found)) for kind, found in names.items() if found]


def _phases(seen: Observation) -> str:
    """`[2, 18, 33]`, or phase by phase where they differ."""
    if len(set(seen.captured.values())) == 1:
        return numbers(next(iter(seen.captured.values())))
    return ", ".join(f"{numbers(b)} ({p.replace('_', ' ')})" for p, b in seen.captured.items())


def _states(count: int) -> str:
    return "1 state" if count == 1 else f"{count} states"


def _fits(count: int | None) -> str:
    return say("fits", "none" if count is None else "one" if count == 1 else "states", count=count or 0)


def _joined(parts: list[str]) -> str:
    return "; ".join(parts)


def _line(kind: str, **values: Any) -> str:
    return say("plan", kind, **values)
