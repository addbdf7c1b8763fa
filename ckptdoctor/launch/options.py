"""The words of a command → options, by what an engine's launch line knows, each with its place in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckptdoctor.errors import UsageError
from ckptdoctor.launch.engines import EngineLine
from ckptdoctor.launch.words import Word
from ckptdoctor.limits import LAUNCH_OPTIONS
from ckptdoctor.text import show

__all__ = ["Given", "Options", "container_environment", "options_of", "with_files"]


@dataclass(frozen=True)
class Given:
    """One option as it was given.

    `name` is the known option that is meant, `member` the member of an object where that was given by itself,
    `written` the name as it stands. `word` is the word with the name; `holder` the one with the value (the same for
    `--a=b`), None for a flag alone.
    """

    name: str
    member: str | None
    written: str
    value: str
    word: Word
    holder: Word | None

    @property
    def open(self) -> bool:
        """Whether a variable of the shell is left in the value."""
        return self.holder is not None and self.holder.open


@dataclass(frozen=True)
class Options:
    """All options of a command, in their order, the object of the one that holds an object, and the other words."""

    given: tuple[Given, ...] = ()
    object: Mapping[str, Any] = field(default_factory=dict)
    object_open: bool = False
    plain: tuple[Word, ...] = ()

    def last(self, names: Iterable[str]) -> Given | None:
        """The last option of these names, which is the one that counts."""
        wanted = frozenset(names)
        return next((given for given in reversed(self.given) if given.member is None and given.name in wanted), None)


# Options of what stands in front of an engine's program (docker, env, srun) that take no value.
_BARE = frozenset(
    {"rm", "it", "ti", "i", "t", "d", "privileged", "init", "exclusive", "overlap", "u", "help", "version"}
)


def options_of(words: Sequence[Word], engine: EngineLine | None) -> Options:
    """Read the options of a command. Raises `UsageError` for an object that is no JSON object."""
    given: list[Given] = []
    plain: list[Word] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.text.startswith("-") or len(word.text) < 2:
            plain.append(word)
            continue
        written, equals, value = word.text.partition("=")
        stem, _, member = written.lstrip("-").partition(".")
        name = engine.canonical(stem) if engine is not None and written.startswith("--") else stem
        holder = word if equals else None
        if not equals and not _is_bare(name, engine) and index < len(words) and _is_value(words[index].text):
            holder = words[index]
            value = holder.text
            index += 1
        key = member.replace("-", "_") if member and engine is not None and name in engine.object_names else None
        given.append(Given(name, key or (member or None), written, value, word, holder))
    if len(given) > LAUNCH_OPTIONS:
        raise UsageError(f"the launch line has more than {LAUNCH_OPTIONS} options")
    held, is_open = _object(given, engine)
    return Options(tuple(given), held, is_open, tuple(plain))


def _is_bare(name: str, engine: EngineLine | None) -> bool:
    return name in _BARE or (engine is not None and name in engine.bare)


def _is_value(word: str) -> bool:
    """Whether a word after an option can be its value: another option cannot, a negative number can."""
    return not word.startswith("-") or word == "-" or re.match(r"-\.?\d", word) is not None


def _object(given: Sequence[Given], engine: EngineLine | None) -> tuple[dict[str, Any], bool]:
    """The object, with the members that were given one by one; and whether a part of it could not be read."""
    found: dict[str, Any] = {}
    is_open = False
    if engine is None or engine.object_option is None:
        return found, is_open
    for option in given:
        if option.name not in engine.object_names or option.member is not None:
            continue
        if option.open:
            found, is_open = _with_variables(option.value)
        elif option.value:
            found, is_open = _json(option.value, engine.object_option), False
    for option in given:
        if option.name in engine.object_names and option.member is not None:
            found[option.member.rstrip("+")] = _plain(option.value)
    return {str(key).replace("-", "_"): value for key, value in found.items()}, is_open


def _json(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"--{option} is no JSON: {show(text, 80)}") from None
    if not isinstance(value, dict):
        raise UsageError(f"--{option} is no JSON object: {show(text, 80)}")
    return value


def _with_variables(text: str) -> tuple[dict[str, Any], bool]:
    """JSON in which variables are left: a bare `$N` is read as the text that it is."""
    quoted = re.sub(r"(?<=[:\[,\s])(\$\{?\w+\}?)(?=\s*[,}\]])", r'"\1"', text)
    try:
        value = json.loads(quoted)
    except (ValueError, RecursionError):
        return {}, True
    return (value, False) if isinstance(value, dict) else ({}, True)


def _plain(text: str) -> Any:
    """A member given by itself: a number, a truth value or JSON where it is one, else the text."""
    if len(text) > 4096:
        return text
    try:
        return json.loads(text) if text[:1] in "-0123456789[{tfn" and text else text
    except (ValueError, RecursionError):
        return text


def with_files(options: Options, line: EngineLine, config_of: Callable[[str], Mapping[str, Any] | None]) -> Options:
    """The options with those of the file that the command names; what the command itself says wins."""
    named = options.last(line.raw.get("config_files", ()))
    content = config_of(named.value) if named is not None and named.value else None
    if not content:
        return options
    given: list[Given] = []
    held: dict[str, Any] = {}
    for key, value in content.items():
        name = line.canonical(str(key))
        if name in line.object_names:
            held = {str(k).replace("-", "_"): v for k, v in value.items()} if isinstance(value, dict) else held
        elif isinstance(value, (str, int, float)):
            given.append(Given(name, None, f"--{key}", str(value), Word("", 0, 0), None))
    return Options((*given, *options.given), {**held, **options.object}, options.object_open, options.plain)


def container_environment(options: Options) -> dict[str, str]:
    """What `-e NAME=value` and `--env NAME=value` of a container set."""
    pairs = [given.value.partition("=") for given in options.given if given.written in ("-e", "--env")]
    return {name: value for name, equals, value in pairs if equals}
