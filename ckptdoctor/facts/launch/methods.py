"""The algorithm of a launch line, and where it looks for the draft, against what the draft is."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from difflib import get_close_matches
from typing import Any

from ckptdoctor.facts.launch.draft_side import Seen
from ckptdoctor.launch.deviations import Deviation, MethodDeviation, PathDeviation
from ckptdoctor.launch.engines import Method

__all__ = ["method_deviations", "runs"]

_Step = Generator[MethodDeviation, None, bool]
"""Finds deviations, and says whether what else the line asks for has no meaning beside them."""


def runs(seen: Seen) -> Method | None:
    """What the engine will run, after the path or the draft's config has overruled the line's word; None: not known."""
    launch, line = seen.launch, seen.line
    word = launch.method_word
    method = line.method(word) if word is not None else None
    if line.raw["without_method"] != "infer":
        return method
    if method is not None and (method.raw.get("explicit") or not (method.drafts or method.method == "draft_model")):
        return method
    if (word is not None and method is None) or launch.draft_path is None or seen.is_open("draft_path", "method_word"):
        return method
    inferred = _inferred(seen)
    if inferred is not None:
        return line.method(inferred)
    if method is not None:
        return method
    otherwise = line.raw["otherwise"]
    return line.method(otherwise["method"])


def _inferred(seen: Seen) -> str | None:
    path = (seen.launch.draft_path or "").lower()
    for row in seen.line.raw["inference"]:
        if not seen.holds(row):
            continue
        if (
            ("path" in row and row["path"] in path)
            or ("classes" in row and seen.draft.architecture.name in row["classes"])
            or ("model_types" in row and seen.draft.model_type in row["model_types"])
            or ("draft" in row and seen.algorithm == row["draft"])
        ):
            return str(row["method"])
    return None


def method_deviations(seen: Seen) -> Iterator[Deviation]:
    """What does not go together of algorithm, path and draft."""
    if not seen.known or seen.is_open("method_word"):
        return
    if not seen.launch.speculates:
        if seen.line.raw["without_method"] not in ("default", "unknown") and not _is_served_itself(seen):
            yield MethodDeviation("no_speculation", changes=_switch_on(seen))
        return
    for step in (_word, _missing_method, _hijacked, _other):
        if (yield from step(seen)):
            break
    else:
        yield from _parallel(seen)
    yield from _path(seen)


def _is_served_itself(seen: Seen) -> bool:
    """A draft that names its target, or that stands in it, can be what is served."""
    return seen.bundled or seen.kind.may_hold_target or seen.checkpoint_speculators


def _switch_on(seen: Seen) -> dict[str, object]:
    method = seen.line.method_for(seen.algorithm)
    if method is None:
        return {}
    tokens = {"draft_tokens": 3} if seen.line.raw["without_method"] == "infer" else {}
    return {**_word_change(seen, method), "draft_path": seen.checkpoint.path, **tokens}


def _word_change(seen: Seen, method: Method) -> dict[str, object]:
    changes: dict[str, object] = {"method_word": method.word}
    if method.counts in ("block", "block_and_anchor") and seen.line.raw["without_method"] == "none":
        changes |= {name: None for name in ("steps", "topk") if getattr(seen.launch, name) is not None}
        if seen.launch.draft_tokens is not None and seen.block_size is not None:
            changes["draft_tokens"] = seen.block_size + (method.counts == "block_and_anchor")
    return changes


def _asking_for(seen: Seen, method: Method | None) -> dict[str, Any]:
    """What makes the line ask for another method: fields of a `MethodDeviation`."""
    if method is None:
        return {}
    flags = method.raw.get("option")
    asked = {"changes": _word_change(seen, method)} if flags is None else {"corrected": _with_flag(seen, flags)}
    return {"wanted": method.word, **asked}


def _with_flag(seen: Seen, flags: dict[str, str]) -> str | None:
    """The line for an engine whose algorithm is a flag alone."""
    source = seen.launch.source
    there = source.options.last([flags["remove"]])
    if there is not None:
        return source.without(there)
    text = source.without_nothing()
    return f"{text} --{flags['add']}" if re.search(flags["words"], text) else None


def _word(seen: Seen) -> _Step:
    """The word is none of the engine's, or is written in another case."""
    word = seen.launch.method_word
    if word is None:
        return False
    line = seen.line
    method = line.method(word)
    best = line.method_for(seen.algorithm)
    if method is None:
        if line.raw.get("any_word"):
            return True
        close = get_close_matches(word.lower(), [w.lower() for w in line.methods], 1, 0.6)
        likely = best or (line.method(close[0]) if close else None)
        kind = (
            "method_not_listed"
            if line.raw.get("open_words_from") and not close and not _alike(word, line.methods)
            else "method_unknown"
        )
        yield MethodDeviation(kind, *seen.said("method_word"), **_asking_for(seen, likely))
        return True
    if seen.launch.release is not None and not seen.holds(method.raw):
        said = " and ".join(f"{name} {method.raw[name]}" for name in ("from", "until") if name in method.raw)
        yield MethodDeviation("method_of_another_release", *seen.said("method_word"), releases=said)
        return True
    if word != method.word and word.lower() == method.word.lower():
        until = line.raw.get("case_matters_until")
        if until is None or not seen.launch.release or seen.holds({"until": until}):
            at = seen.instead("method_word", method.word)
            yield MethodDeviation("method_case", *at, wanted=method.word, until=until)
    return False


def _alike(word: str, words: object) -> bool:
    """Whether a word is one of these with a version, a hyphen or a number more or less (EAGLE-3, EAGLE2, D-Flash)."""

    def plain(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.lower())

    return plain(word) in {plain(str(known)) for known in words} if isinstance(words, (dict,)) else False


def _missing_method(seen: Seen) -> _Step:
    launch, line = seen.launch, seen.line
    if launch.method_word is not None:
        return False
    way = line.raw["without_method"]
    best = line.method_for(seen.algorithm)
    if way == "none" or (way == "required" and launch.source.options.object):
        if not seen.bundled or launch.draft_path is not None:
            kind = "method_missing" if way == "none" else "method_required"
            yield MethodDeviation(kind, *seen.said("method_word"), **_asking_for(seen, best))
        return True
    if way == "infer" and launch.draft_path is not None and not seen.is_open("draft_path"):
        inferred = _inferred(seen)
        if inferred is None and not seen.kind.model:
            runs_as = line.raw["otherwise"]["method"]
            asked = _asking_for(seen, best)
            yield MethodDeviation("method_left_open", *seen.said("method_word"), runs=runs_as, **asked)
            return True
    return False


def _hijacked(seen: Seen) -> _Step:
    """The path of the draft makes the engine take another method than the line says, or than the draft needs."""
    launch, line = seen.launch, seen.line
    if line.raw["without_method"] != "infer" or launch.draft_path is None or seen.is_open("draft_path"):
        return False
    method = runs(seen)
    word = launch.method_word
    said = line.method(word) if word is not None else None
    if method is None or seen.algorithm in method.drafts or (said is not None and said.method == method.method):
        return False
    path = launch.draft_path.lower()
    part = next(
        (row["path"] for row in line.raw["inference"] if row.get("path", "\0") in path and seen.holds(row)), None
    )
    if part is None or line.method(part_method(line.raw["inference"], part)) != method:
        return False
    best = line.method_for(seen.algorithm)
    # Other methods are not taken from the line while the path holds that part.
    asked = _asking_for(seen, best) if best is None or best.raw.get("explicit") else {"wanted": best.word}
    yield MethodDeviation("path_decides", *seen.said("draft_path"), part=part, runs=method.word, **asked)
    return True


def part_method(rows: list[dict[str, str]], part: str) -> str:
    """The method that a part of a path stands for."""
    return next(row["method"] for row in rows if row.get("path") == part)


def _other(seen: Seen) -> _Step:
    """The method runs another kind of draft."""
    method = runs(seen)
    if method is None or seen.launch.method_word is None or not method.drafts or seen.algorithm in method.drafts:
        return False
    asked = _asking_for(seen, seen.line.method_for(seen.algorithm))
    yield MethodDeviation("method_of_another_draft", *seen.said("method_word"), runs=method.method, **asked)
    return True


def _parallel(seen: Seen) -> Iterator[Deviation]:
    """Drafting of all positions in one pass: asked of a draft that cannot, or not asked of one that was made for it."""
    row = seen.line.raw.get("parallel_drafting")
    method = runs(seen)
    if row is None or method is None or method.method != row["method"] or not seen.holds(row):
        return
    if seen.algorithm in row["drafts"] and not seen.launch.parallel_drafting:
        yield Deviation("parallel_missing", changes={"parallel_drafting": True})
    elif seen.launch.parallel_drafting and seen.algorithm not in row["drafts"]:
        yield Deviation("parallel_unsuited", changes={"parallel_drafting": None})


def _path(seen: Seen) -> Iterator[PathDeviation]:
    """Where the draft is looked for: nowhere, in the target's place, or in another folder than the scanned one."""
    launch = seen.launch
    method = runs(seen) or seen.line.method_for(seen.algorithm)
    if seen.launch.source.options.last(seen.line.raw.get("removed", ())) is not None:
        return
    if method is None or seen.is_open("draft_path") or not (method.drafts or method.raw.get("path")):
        return
    way, here = method.raw.get("path"), seen.checkpoint.path
    at = seen.instead("draft_path", here)
    if launch.draft_path is None:
        inside = seen.bundled or seen.algorithm == "mtp" or (way == "inside" and seen.algorithm == "dspark")
        if way in (None, "any") or inside:
            return
        yield PathDeviation("draft_path_missing", *at, wanted=here, place=way)
        return
    if launch.draft_path == launch.target_path and not seen.bundled and not seen.kind.may_hold_target:
        yield PathDeviation("draft_is_target", *at, wanted=here)
    elif seen.same_place(launch.draft_path) is False:
        yield PathDeviation("another_draft", *at, wanted=here)
