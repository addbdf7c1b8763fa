"""Options and members of a launch line that the engine does not know: misspelt, of another engine, or long gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ckptdoctor.facts.launch.draft_side import Seen
from ckptdoctor.launch.deviations import StrayDeviation
from ckptdoctor.launch.engines import EngineLine, engine_lines
from ckptdoctor.launch.options import Given

__all__ = ["stray_deviations"]

_STRAYS = 8
_MEMBERS = 64


def stray_deviations(seen: Seen) -> Iterator[StrayDeviation]:
    """Every option and member that the engine would stop on."""
    yield from _strays(seen)
    if seen.launch.speculates:
        yield from _members(seen)
        yield from _removed(seen)


def _strays(seen: Seen) -> Iterator[StrayDeviation]:
    """Options that the engine does not know: those of another engine, and misspelt ones of speculation."""
    line = seen.line
    if line.raw.get("any_option"):
        return
    found = spelt = 0
    start = _program_start(seen)
    for given in seen.launch.source.options.given:
        if given.member is not None and given.name in line.object_names:
            continue
        if not given.written.startswith("--") or not given.word.end or start is None or given.word.start <= start:
            continue
        if given.name in line.known or given.name.removeprefix("no-") in line.known or found >= _STRAYS:
            if (
                not line.raw["underscores"]
                and "_" in given.written
                and given.name in line.known
                and _is_plain(given, line)
                and spelt < _STRAYS
            ):
                spelt += 1
                yield _renamed(seen, "option_spelling", given, given.name)
            continue
        stray = _stray(seen, given)
        if stray is not None:
            found += 1
            yield stray


def _is_plain(given: Given, line: EngineLine) -> bool:
    return not any(given.written.lstrip("-").startswith(prefix) for prefix in line.raw.get("prefixes", ()))


def _renamed(seen: Seen, kind: str, given: Given, name: str) -> StrayDeviation:
    wanted = f"--{name}"
    corrected = seen.launch.source.renamed(given, wanted)
    return StrayDeviation(kind, given.written, given.value or None, corrected=corrected, wanted=wanted)


def _stray(seen: Seen, given: Given) -> StrayDeviation | None:
    line = seen.line
    close = get_close_matches(given.name, [name for name in line.known if len(name) > 4], 1, 0.84)
    other = next((e for e in engine_lines().values() if e is not line and given.name in e.known), None)
    speaks = "spec" in given.name or "draft" in given.name
    if close and speaks:
        return _renamed(seen, "option_misspelt", given, close[0])
    if other is not None:
        return StrayDeviation("option_of_another_engine", given.written, given.value or None, engine=other.name)
    return StrayDeviation("option_not_known", given.written, given.value or None) if speaks else None


def _program_start(seen: Seen) -> int | None:
    """Where the engine's program stands: options in front of it belong to docker, srun and the like."""
    words = seen.launch.source.options.plain
    start = min((word.start for word in words if seen.line.runs(word.text)), default=None)
    modules = (g.word.start for g in seen.launch.source.options.given if g.written == "-m" and seen.line.runs(g.value))
    return min((p for p in (start, next(modules, None)) if p is not None), default=None)


def _members(seen: Seen) -> Iterator[StrayDeviation]:
    """Members that the object of speculation cannot have."""
    line = seen.line
    if not line.raw.get("closed_object"):
        return
    for name in list(seen.launch.source.options.object)[:_MEMBERS]:
        if name in line.known_members:
            if name == "tensor_parallel_size" and "draft_tensor_parallel_size" in line.members:
                yield StrayDeviation("member_refused", name, wanted="draft_tensor_parallel_size")
            continue
        stem = name.split(".")[0]
        close = get_close_matches(stem, sorted(line.known_members), 1, 0.75)
        if stem not in line.known_members:
            yield StrayDeviation("member_not_known", name, wanted=close[0] if close else None)


def _removed(seen: Seen) -> Iterator[StrayDeviation]:
    """Options of releases long gone."""
    rows: Mapping[str, Any] = seen.line.raw.get("removed", {})
    gone = [given for given in seen.launch.source.options.given if given.name in rows]
    if gone:
        held = {rows[given.name]["member"]: given.value for given in gone}
        fields = {
            seen.line.members[name].field: _number(value) for name, value in held.items() if name in seen.line.members
        }
        first, wanted = gone[0], f"--{seen.line.object_option}"
        corrected = _moved(seen, gone, fields)
        yield StrayDeviation("option_removed", first.written, first.value, corrected=corrected, wanted=wanted)


def _moved(seen: Seen, gone: list[Given], fields: Mapping[str, Any]) -> str | None:
    source = seen.launch.source
    method = seen.line.method_for(seen.algorithm)
    return source.moved(gone, {**({"method_word": method.word} if method else {}), **fields})


def _number(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
