"""Plans for a person: a table of parameters, what goes unused, and the wiring as a small diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckptdoctor.report.initial_values import LEFT, is_defined
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.terminal.surface import DEFAULT_WIDTH
from ckptdoctor.report.wording import OUTCOME_STYLE, SERVED
from ckptdoctor.serving import LoadPlan, Parameter
from ckptdoctor.serving.compat import Range
from ckptdoctor.text import listing, numbers, plural, show

__all__ = ["compat_lines", "plan_lines"]

_STORED_SHOWN = 40
_PARAMETERS_SHOWN = 400
_REASONS_SHOWN = 3
_ROW = 4


def plan_lines(plan: LoadPlan, title: str, width: int = DEFAULT_WIDTH) -> Iterator[Line]:
    """One plan: outcome and reasons, parameters, stored tensors that go unused, wiring, what is not proven.

    A row of the table that does not fit into `width` columns becomes two lines.
    """
    yield from _caveats([plan])
    said = Segment(SERVED[plan.outcome], OUTCOME_STYLE[plan.outcome])
    yield line(Segment(f"{plan.engine} {plan.version}", "path"), ": ", said, hang=2)
    yield line(title, indent=2, hang=2)
    for reason in plan.reasons[:_REASONS_SHOWN]:
        yield line(Segment("because ", "label"), reason, indent=2, hang=2)
    if len(plan.reasons) > _REASONS_SHOWN:
        yield line(_more_reasons(plan), indent=2)
    yield from _otherwise(plan)
    if plan.parameters:
        yield BLANK
        yield line(Segment(f"parameters of {plan.model_class}", "label"), indent=2)
        yield from _table(plan.parameters, width)
    yield from _unused(plan)
    yield from _wiring(plan)
    yield from _remarks(plan)


def _caveats(plans: Sequence[LoadPlan]) -> Iterator[Line]:
    """What stands before everything else: a release was asked for that nobody has read."""
    for remark in dict.fromkeys(plan.release_remark for plan in plans if plan.release_remark is not None):
        yield line(Segment(remark, "warning"), hang=2)
        yield BLANK


def _more_reasons(plan: LoadPlan) -> str:
    return f"and {plural(len(plan.reasons) - _REASONS_SHOWN, 'more reason')}"


def _otherwise(plan: LoadPlan) -> Iterator[Line]:
    """What would serve the draft better: other releases, and ids that this release would read as trained."""
    for release in plan.better:
        yield line(Segment("better: ", "label"), release, indent=2, hang=2)
    if plan.edits:
        text = f"with {plan.edit_text} in config.json this release serves it as trained (planned so)"
        yield line(Segment("better: ", "label"), text, indent=2, hang=2)
    if plan.fitting is not None:
        yield line(
            Segment("better: ", "label"),
            f"with the ids {_numbers(plan.fitting)} this release captures what the draft was trained on",
            indent=2,
            hang=2,
        )


def _table(parameters: Sequence[Parameter], width: int) -> Iterator[Line]:
    names = max(len(p.name) for p in parameters)
    shapes = max(len(_shape(p)) for p in parameters)
    for parameter in parameters[:_PARAMETERS_SHOWN]:
        name = parameter.name.ljust(names + 2)
        text, style = _from(parameter)
        shape = _shape(parameter).ljust(shapes + 2)
        if _ROW + len(name) + len(shape) + len(text) <= width:
            yield line(name, Segment(shape, "quiet"), Segment(text, style), indent=_ROW)
        else:
            yield line(name, Segment(shape.rstrip(), "quiet"), indent=_ROW, hang=2)
            yield line(Segment(text, style), indent=_ROW + 4, hang=2)
    if len(parameters) > _PARAMETERS_SHOWN:
        yield line(f"and {len(parameters) - _PARAMETERS_SHOWN:,} more", indent=_ROW)


def _shape(parameter: Parameter) -> str:
    return "?" if parameter.shape is None else "×".join(str(n) for n in parameter.shape) or "scalar"


def _from(parameter: Parameter) -> tuple[str, str]:
    """Where a parameter's values come from, and the style that says how bad it is."""
    keys = listing(parameter.keys, 3)
    unread = "" if parameter.used else ", never read"
    if parameter.state == "shared":
        return (f"the target's (instead of {keys})" if parameter.keys else "the target's"), "quiet"
    if parameter.state == "loaded":
        return f"← {keys}{unread}", "quiet" if unread else ""
    if parameter.state == "partly":
        return f"← {keys}; {listing(parameter.parts_missing)} {LEFT[parameter.initial]}", "error"
    style = "quiet" if unread else "warning" if is_defined(parameter.initial) else "error"
    return f"{LEFT[parameter.initial]}{unread}", style


def _unused(plan: LoadPlan) -> Iterator[Line]:
    shown = {key for parameter in plan.parameters for key in parameter.keys} | {plan.wiring.get("map")}
    # t2d counts as used: engines know it and need it for nothing.
    lost = [s for s in plan.stored if s.fate != "used" or s.name not in shown]
    if not lost:
        return
    yield BLANK
    yield line(Segment("stored tensors that go unused", "label"), indent=2)
    for stored in lost[:_STORED_SHOWN]:
        style = "error" if stored.fate == "rejected" else "warning" if "no such" in stored.why else "quiet"
        fate = "not needed" if stored.fate == "used" else stored.fate.replace("_", " ")
        yield line(
            show(stored.name), "  ", Segment(f"{fate}: {stored.why}" if stored.why else fate, style), indent=4, hang=2
        )
    if len(lost) > _STORED_SHOWN:
        yield line(f"and {len(lost) - _STORED_SHOWN} more", indent=4)


def _wiring(plan: LoadPlan) -> Iterator[Line]:
    if not plan.captured and not plan.wiring:
        return
    yield BLANK
    yield line(Segment("wiring", "label"), indent=2)
    wiring = plan.wiring
    if wiring.get("final_state"):
        yield line("target → final state", indent=4)
    else:
        told = {p: b for p, b in plan.captured.items() if b is not None}
        if told and len(set(told.values())) == 1:
            boundaries = next(iter(told.values()))
            style = "error" if plan.trained is not None and boundaries != plan.trained else ""
            yield line(
                Segment(f"target → boundaries {_numbers(boundaries)}", style),
                Segment(_source(plan), "quiet"),
                indent=4,
                hang=2,
            )
        else:
            for phase, boundaries in told.items():
                differs = plan.trained is not None and boundaries != plan.trained
                text = f"target → boundaries {_numbers(boundaries)} in {phase.replace('_', ' ')}"
                yield line(Segment(text, "error" if differs else ""), Segment(_source(plan), "quiet"), indent=4, hang=2)
    if plan.trained is not None:
        because = f" ({wiring['trained_because']})" if wiring.get("trained_because") else ""
        yield line(f"trained on {_numbers(plan.trained)}", Segment(because, "quiet"), indent=7, hang=2)
    if wiring.get("fc"):
        yield line("→ fc ", Segment(str(wiring["fc"]), "error" if wiring["fc"] == "skipped" else ""), indent=4)
    if wiring.get("residual"):
        words = {"before_norm": "taken before the norm", "configured": "as norm_before_residual says"}
        residual = words.get(str(wiring["residual"]), str(wiring["residual"]))
        yield line(f"→ draft layers (residual {residual}) → norm → head", indent=4, hang=2)
    mapped = wiring.get("map")
    yield line("→ draft id ", f"+ {show(mapped)} → target id" if mapped else "= target id (no map)", indent=4)


def _source(plan: LoadPlan) -> str:
    ids, place = plan.wiring.get("ids"), plan.wiring.get("ids_from")
    return f"  from {place} {_numbers(ids)}" if ids and place else "  the engine's default"


def _numbers(values: Sequence[int]) -> str:
    return numbers(values)


def _remarks(plan: LoadPlan) -> Iterator[Line]:
    # What makes an outcome unknown is told at the head.
    unproven = [text for text in plan.unproven if text not in plan.reasons]
    remarks = [text for text in plan.remarks if text != plan.release_remark]
    for title, texts in (("not proven", unproven), ("remarks", remarks)):
        if texts:
            yield BLANK
            yield line(Segment(title, "label"), indent=2)
            for text in texts:
                yield line(text, indent=4, hang=2)
    if not plan.executed:
        yield BLANK
        yield line(Segment("part of this was read in the source and not executed", "quiet"), indent=2)


def compat_lines(ranges: Sequence[Range], title: str) -> Iterator[Line]:
    """One draft over all known releases, a line a range, and what would change at the next border."""
    yield from _caveats([item.plan for item in ranges])
    yield line(Segment(title, "path"), hang=2)
    engine = None
    for item in ranges:
        if item.engine != engine:
            engine = item.engine
            yield BLANK
            yield line(Segment(item.name, "label"), indent=2)
        span = item.span
        said = Segment(SERVED[item.plan.outcome], OUTCOME_STYLE[item.plan.outcome])
        yield line(span.ljust(24), " ", said, indent=4)
        for reason in item.plan.reasons[:_REASONS_SHOWN]:
            yield line(reason, indent=8, hang=2)
        if len(item.plan.reasons) > _REASONS_SHOWN:
            yield line(_more_reasons(item.plan), indent=8)
        if item.plan.outcome == "served" and item.plan.unproven:
            yield line(Segment(f"not proven: {'; '.join(item.plan.unproven)}", "quiet"), indent=8, hang=2)
