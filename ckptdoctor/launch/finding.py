"""Which of the commands in a text starts an engine, and which engine it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ckptdoctor.launch.engines import EngineLine, engine_lines
from ckptdoctor.launch.words import Command, Word, commands_of

__all__ = ["chosen_command", "release_in", "speaks_of_drafts"]

_SHELL_STRING = re.compile(r"-[a-z]*c")
_NAME = re.compile(r"[\w./-]+")
_TAG = re.compile(r":[\w.+-]+")
_NESTED = 3
_TEXT_LIMIT = 64 * 1024


def chosen_command(
    text: str, script: bool, depth: int = _NESTED
) -> tuple[tuple[Command, str] | None, EngineLine | None]:
    """The engine's command in the text, the text in which its words stand, and its engine.

    Of several the first that speaks of speculation, else the first that runs an engine, else the first one at all.
    """
    best: tuple[int, tuple[Command, str], EngineLine | None] | None = None
    for command, place in _commands(text, script, depth):
        engine = _engine_of(command.words)
        names = {w.text.lstrip("-").partition("=")[0].partition(".")[0] for w in command.words if w.text[:1] == "-"}
        speaks = any(speaks_of_drafts(line, names) for line in ([engine] if engine else engine_lines().values()))
        score = (2 if speaks else 0) + (1 if engine is not None else 0)
        if best is None or score > best[0]:
            best = (score, (command, place), engine or (_by_signs(names) if speaks else None))
    if best is None:
        return None, None
    _, chosen, engine = best
    return chosen, engine if engine is not None else _mentioned(chosen[0].words)


def _commands(text: str, script: bool, depth: int) -> list[tuple[Command, str]]:
    """Every command, each followed by those in the words that a shell is told to run (`sh -c "…"`)."""
    found: list[tuple[Command, str]] = []
    for command in commands_of(text, comments=script):
        found.append((command, text))
        before = ""
        for word in command.words:
            if depth and _SHELL_STRING.fullmatch(before) and re.search(r"\s", word.text):
                inner = _commands(word.text, True, depth - 1)
                found[-1:] = [*inner, found[-1]] if inner else [found[-1]]
            before = word.text
    return found


def _engine_of(words: Sequence[Word]) -> EngineLine | None:
    """The engine whose program, module or image comes first."""
    for word in words:
        if word.text.startswith("-"):
            continue
        for line in engine_lines().values():
            if line.runs(word.text):
                return line
    return None


def speaks_of_drafts(line: EngineLine, names: Iterable[str]) -> bool:
    """Whether any of these options (without dashes) speaks of speculation in this engine's words."""
    signs = tuple(line.raw["signs"])
    clean = {line.canonical(name) for name in names if len(name) > 1} | set(names)
    return any(
        name in line.object_names or (name.startswith(signs) and len(name) > 2) or name in signs for name in clean
    )


def _by_signs(names: set[str]) -> EngineLine | None:
    for line in engine_lines().values():
        if line.raw.get("only_by_program"):
            continue
        signs = tuple(line.raw["signs"])
        dashed = {name.replace("_", "-") for name in names}
        for prefix in line.raw.get("prefixes", ()):
            dashed |= {name.removeprefix(prefix) for name in dashed}
        if any(
            (len(name) > 2 and name.startswith(tuple(s for s in signs if len(s) > 2))) or name in signs
            for name in dashed
        ):
            return line
    return None


def _mentioned(words: Sequence[Word]) -> EngineLine | None:
    text = " ".join(word.text for word in words if not word.text.startswith("-"))
    for line in engine_lines().values():
        if any(name in text for name in line.raw.get("mentioned_as", ())):
            return line
    return None


def release_in(text: str, line: EngineLine | None) -> str | None:
    """The release of the engine that the tag of a container image in the text names."""
    if line is None or not line.raw["images"]:
        return None
    found = (line.release_of(word) for word in _images(text[:_TEXT_LIMIT]))
    return next((release for release in found if release is not None), None)


def _images(text: str) -> Iterator[str]:
    """What may be a container image with its tag, each place of the text looked at once."""
    at = 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        tag = _TAG.match(text, at)
        if tag is not None:
            at = tag.end()
            yield text[name.start() : at]
