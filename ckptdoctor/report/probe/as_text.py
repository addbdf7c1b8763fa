"""A probe for a person: how far the draft guesses right, under which wiring, and who serves it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.wording import PATH_LIMIT
from ckptdoctor.text import listing, plural, show

if TYPE_CHECKING:
    from ckptdoctor.probe.probing import ProbeResult
    from ckptdoctor.probe.search.figures import Length, Step
    from ckptdoctor.probe.search.searching import Alternative, Found
    from ckptdoctor.probe.search.serving_as import ServedAs

__all__ = ["probe_lines"]

_STYLE = {
    "works": "fix",
    "otherwise": "warning",
    "chance": "error",
    "weak": "warning",
    "measured": "note",
    "too_few": "note",
}
_BAR = 20
_LABEL = 34
_OWN_WORDS = 0.3
"""Of a text that is natural to the target more tokens than this are its own first choice, whoever wrote it."""


def probe_lines(result: ProbeResult) -> Iterator[Line]:
    """The report: verdict, accuracy step by step, the wiring that was found, the config, the engines, the shapes."""
    from ckptdoctor.probe.probing import NEEDED
    from ckptdoctor.probe.words import WORDS

    words = WORDS["verdicts"][result.verdict]
    yield line(
        Segment(show(result.path, PATH_LIMIT), "path"), ": ", Segment(words["headline"], _STYLE[result.verdict]), hang=2
    )
    yield line(result.title, indent=2, hang=2)
    yield from _samples(result)
    yield BLANK
    lacks_states = result.verdict == "chance" and result.samples.columns < result.anatomy.states
    means = str(words["means_too_few_states"] if lacks_states else words["means"]).format(
        counted=result.samples.counted, needed=NEEDED, path=show(result.path, PATH_LIMIT)
    )
    yield line(" ".join(means.split()), indent=2, hang=2)
    changed = result.found is not None and bool(result.found.changed)
    if result.found is not None and result.verdict == "otherwise":
        yield from _differences(result, result.found)
    for hint in () if lacks_states else words.get("next", ()):
        yield line("- ", str(hint).format(path=show(result.path, PATH_LIMIT)), indent=2, hang=2)
    yield from _accuracy("as the files state" if changed else "accuracy", result.steps, result.length)
    if changed and result.found is not None:
        yield from _accuracy("as found", result.best_steps, result.found.length)
    yield from _chance(result)
    if result.found is not None and result.verdict not in ("chance", "too_few"):
        yield from _wiring(result, result.found)
        yield from _config(result)
        yield from _engines(result)
    yield from _flows(result)


def _differences(result: ProbeResult, found: Found) -> Iterator[Line]:
    """What is otherwise than the files state, in one line for each part, and what it is worth."""
    from ckptdoctor.probe.words import WORDS, said_of

    names, boundaries = WORDS["parts"], result.samples.boundaries
    for part in found.changed:
        now, instead = (said_of(part, wiring, boundaries) for wiring in (found.wiring, found.stated))
        yield line(f"- {names[part]['name']}: ", Segment(now, "fix"), f", not {instead}", indent=2, hang=2)
    yield line(
        f"- accepted length: {found.length.value:.2f} in this way, {found.stated_length.value:.2f} as the files state",
        indent=2,
        hang=2,
    )


def _samples(result: ProbeResult) -> Iterator[Line]:
    from ckptdoctor.probe.words import WORDS

    samples = result.samples
    form = WORDS["forms"][samples.form]
    known = [b for b in samples.boundaries if b is not None]
    which = f" (boundaries {_span(known)})" if len(known) == samples.columns else ""
    yield line(
        f"samples: {form}; {plural(len(samples.items), 'text')}, {plural(samples.counted, 'token')} of the target, "
        f"{plural(samples.columns, 'state')} of {samples.width} at each{which}",
        indent=2,
        hang=2,
    )
    if samples.columns < result.anatomy.states:
        columns, takes = plural(samples.columns, "state"), result.anatomy.states
        told = WORDS.say("notes", "fc_skipped", columns=columns, states=takes)
        yield line(Segment("note: ", "warning"), told, indent=2, hang=2)
    for remark in samples.remarks:
        yield line(Segment("note: ", "note"), remark, indent=2, hang=2)
    if (doubt := _doubt_of_texts(result)) is not None:
        yield line(Segment("note: ", "warning"), doubt, indent=2, hang=2)


def _doubt_of_texts(result: ProbeResult) -> str | None:
    """What speaks against the texts themselves: another writer than the target makes any draft look worse."""
    from ckptdoctor.probe.network.chains import own_words
    from ckptdoctor.probe.words import WORDS

    share = own_words(result.samples)
    if share is not None and share < _OWN_WORDS:
        return WORDS.say("notes", "other_words", share=f"{share:.2f}")
    if share is None and result.verdict in ("chance", "weak"):
        return WORDS.say("notes", "no_answers")
    return None


def _span(numbers: Sequence[int]) -> str:
    whole = list(range(numbers[0], numbers[-1] + 1)) if numbers else []
    return (
        f"{numbers[0]} to {numbers[-1]}"
        if len(numbers) > 2 and list(numbers) == whole
        else listing([str(n) for n in numbers], 12)
    )


def _accuracy(name: str, steps: Sequence[Step], length: Length) -> Iterator[Line]:
    yield BLANK
    yield line(Segment(name, "label"), indent=2)
    for step in steps:
        if step.accuracy is None:
            yield line(f"step {step.number}  never reached", indent=4)
            continue
        full = round(step.accuracy * _BAR)
        yield line(
            f"step {step.number}  ", Segment("█" * full + "░" * (_BAR - full), "quiet"), f"  {step.accuracy:.2f}  ",
            Segment(f"{step.hits} of {step.of}, {step.interval.low:.2f} to {step.interval.high:.2f}", "quiet"),
            indent=4,
        )  # fmt: skip
    most = len(steps) + 1
    yield line(
        f"expected accepted length {length.value:.2f} of at most {most} ",
        Segment(f"({length.interval.low:.2f} to {length.interval.high:.2f})", "quiet"),
        indent=4,
    )


def _chance(result: ProbeResult) -> Iterator[Line]:
    chance = result.chance
    yield line(
        Segment(
            f"by chance: the commonest token alone would be right in {chance.share:.2f} of the places; with the states "
            f"of other positions the accepted length is {chance.shuffled:.2f}",
            "quiet",
        ),
        indent=4,
        hang=2,
    )


def _wiring(result: ProbeResult, found: Found) -> Iterator[Line]:
    from ckptdoctor.probe.search.readings import PARTS
    from ckptdoctor.probe.words import WORDS, said_of

    boundaries = result.samples.boundaries
    yield BLANK
    yield line(Segment("wiring under which it works best", "label"), indent=2)
    for part in PARTS:
        nearest = _nearest(found, part)
        if part not in found.changed and nearest is None:
            continue
        said = said_of(part, found.wiring, boundaries)
        stated = said_of(part, found.stated, boundaries)
        tail = [Segment(f"; the files state {stated}", "warning")] if part in found.changed else []
        yield line(f"{WORDS.say('parts', part, 'name')}: ".ljust(_LABEL), Segment(said, "fix"), *tail, indent=4, hang=2)
        if nearest is not None:
            yield from _next_best(nearest, part, boundaries)
    yield line(Segment(_sureness(found), "quiet"), indent=4, hang=2)
    for part in found.changed:
        yield line(
            Segment(f"{WORDS.say('parts', part, 'name')}: ", "label"),
            WORDS.say("parts", part, "advice"),
            indent=4,
            hang=2,
        )
    if "states" in found.changed:
        if result.boundaries is None:
            yield line(WORDS.say("parts", "states", "unlabelled"), indent=4, hang=2)
        elif list(result.boundaries) != sorted(result.boundaries):
            yield line(WORDS.say("parts", "states", "disordered"), indent=4, hang=2)


def _nearest(found: Found, part: str) -> Alternative | None:
    return next((a for a in found.alternatives if a.part == part), None)


def _next_best(nearest: Alternative, part: str, boundaries: Sequence[int | None]) -> Iterator[Line]:
    from ckptdoctor.probe.words import said_of

    other = said_of("states" if part == "fc" else part, nearest.wiring, boundaries)
    if part == "fc":
        other = f"{said_of('fc', nearest.wiring, boundaries)} ({other})"
    told = "" if nearest.is_beaten else ", which these samples do not tell apart"
    yield line(Segment(f"next best: {other}, accepted length {nearest.length:.2f}{told}", "quiet"), indent=6, hang=2)


def _sureness(found: Found) -> str:
    from ckptdoctor.probe.words import WORDS

    if not found.open_parts:
        return WORDS.say("sure", "clear")
    names = [WORDS.say("parts", part, "name") for part in found.open_parts]
    return WORDS.say("sure", "open", others=listing(names, 6))


def _config(result: ProbeResult) -> Iterator[Line]:
    if not result.entries:
        return
    import json

    yield BLANK
    yield line(Segment("put into the config", "label"), indent=2)
    for entry in result.entries:
        yield line(Segment(f"{entry.key}: {json.dumps(entry.value)}", "command"), indent=4, hang=2)


def _engines(result: ProbeResult) -> Iterator[Line]:
    if not result.served:
        return
    yield BLANK
    what = (
        "engines, by their load plans"
        if result.boundaries is not None
        else "engines, by their load plans (layers not compared)"
    )
    yield line(Segment(what, "label"), indent=2)
    for row in result.served:
        yield line(f"{row.name} {row.releases}: ", *_row(row, bool(result.entries)), indent=4, hang=2)


def _row(row: ServedAs, has_entries: bool) -> list[Segment]:
    captured = f" (captures boundaries {list(row.captured)})" if row.captured is not None else ""
    if row.as_it_is:
        return [Segment("feeds and computes it so", "fix"), Segment(captured, "quiet")]
    if row.with_entries:
        wanted = [f"eagle_aux_hidden_state_layer_ids {list(row.ids)}"] if row.ids is not None else []
        ids = " and ".join([*wanted, "the entries above"] if has_entries or not wanted else wanted)
        return [Segment(f"does so with {ids}", "warning"), Segment(f"; now {row.why}" if row.why else "", "quiet")]
    return [Segment("does not", "error"), Segment(f": {row.why}" if row.why else "", "quiet")]


def _flows(result: ProbeResult) -> Iterator[Line]:
    yield BLANK
    yield line(Segment("shapes that flowed (first text)", "label"), indent=2)
    for flow in result.flows:
        yield line(f"{flow.name}".ljust(26), Segment("×".join(str(n) for n in flow.shape), "quiet"), indent=4)
