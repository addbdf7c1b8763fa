"""Shell text → commands of words, each with its place in the text. Nothing is executed or expanded.

Quotes and backslashes are read as a POSIX shell does; `$name` and `${name}` are replaced where the text itself gives
the variable a plain value, and left as they are otherwise. What a shell takes as it stands (in single quotes, after a
backslash) is never replaced, whatever stands beside it in the same word.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ckptdoctor.errors import UsageError

__all__ = ["Command", "Word", "commands_of", "without_documents"]

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^{}$]*))?\}|([A-Za-z_]\w*))")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_REDIRECTED = re.compile(r">{1,2}[ \t]*([^\s<>|;&]+)")
_DECLARING = ("export", "declare", "local", "readonly", "set", "env")
_OPEN = re.compile(r"\$[A-Za-z_{(]|`")
_EXPANDED_LIMIT = 64 * 1024
_ALL_EXPANDED_LIMIT = 1024 * 1024
"""Characters that variables become in all words of a text; those beyond are left open."""
_COMMANDS_LIMIT = 4096
_VARIABLES_LIMIT = 512
_WORDS_LIMIT = 8192
"""Words of one command. What has more is no command of a server, and every word of one is looked at many times."""
_DOCUMENTS_LIMIT = 64
_DOCUMENT_LINES = 4096

_Part = tuple[str, bool]
"""A piece of a word, and whether a shell takes it as it stands. A name of a variable never goes on in the next one."""


@dataclass(frozen=True)
class Word:
    """One word. `text` is what the program is given, `start` and `end` are where it stands in the shell text.

    `open` says that a variable is left in it, so that what the program is given is not known.
    """

    text: str
    start: int
    end: int
    open: bool = False


@dataclass(frozen=True)
class Command:
    """One simple command, and the variables that hold for it: those set before it, and those in front of its words."""

    words: tuple[Word, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def commands_of(text: str, *, comments: bool = False) -> list[Command]:
    """The simple commands of shell text, in their order.

    With `comments` what follows a `#` at the beginning of a word is left out, and a line end ends a command.
    What stands behind the first thousands of commands is left out. Raises `UsageError` for quotes that do not close and
    for a command of more words than any.
    """
    known: dict[str, Word] = {}
    texts: dict[str, str] = {}
    room = _ALL_EXPANDED_LIMIT
    found: list[Command] = []
    words: list[Word] = []
    for token in chain(_tokens(text, comments), (None,)):
        if token is not None:
            if len(words) >= _WORDS_LIMIT:
                raise UsageError(f"a command in it has more than {_WORDS_LIMIT} words")
            words.append(_expanded(token, known, room))
            room -= min(room, len(words[-1].text)) if any("$" in text for text, _ in token.parts) else 0
            continue
        if words:
            found.append(_command(words, known, texts))
            words = []
            if len(found) >= _COMMANDS_LIMIT:
                break
    return found


def _command(words: list[Word], known: dict[str, Word], texts: dict[str, str]) -> Command:
    """The command, and into `known` and its `texts` what it sets for those after it."""
    first = 0
    while first < len(words) and _ASSIGNMENT.fullmatch(words[first].text):
        first += 1
    here = _assigned(words[:first])
    if first == len(words):
        _remember(known, texts, here)
        # Of a line that starts nothing nobody asks what it would be started with.
        return Command(tuple(words))
    if words[first].text in _DECLARING:
        if words[first].text == "env":
            here |= _assigned(words[first:])
        else:
            _remember(known, texts, _assigned(words[first:]))
    return Command(tuple(words), {**texts, **{name: value.text for name, value in here.items()}})


def _remember(known: dict[str, Word], texts: dict[str, str], here: Mapping[str, Word]) -> None:
    """Put what is set into what is known, as far as there is room: every command has a copy of it."""
    for name, value in here.items():
        if name in known or len(known) < _VARIABLES_LIMIT:
            known[name], texts[name] = value, value.text


def _assigned(words: list[Word]) -> dict[str, Word]:
    """The value of each variable that these words set, as a word: with whether a variable is left in it."""
    found = ((word, _ASSIGNMENT.fullmatch(word.text)) for word in words)
    return {match[1]: replace(word, text=match[2]) for word, match in found if match is not None}


@dataclass(frozen=True)
class _Token:
    """A word before variables are replaced. `cut` says that it ends with `$(`: what stands there is not known."""

    parts: tuple[_Part, ...]
    start: int
    end: int
    cut: bool = False

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)


def _expanded(token: _Token, known: Mapping[str, Word], room: int) -> Word:
    """The word with its variables replaced, by at most `room` characters."""
    is_open, room = token.cut, min(room, _EXPANDED_LIMIT)

    def value(match: re.Match[str]) -> str:
        nonlocal is_open, room
        given = known.get(match[1] or match[3])
        if given is not None:
            # A value that holds a variable again stays as it is: one pass cannot run away.
            is_open = is_open or given.open or len(given.text) > room
            text = given.text[:room]
            room -= len(text)
            return text
        is_open = is_open or match[2] is None
        return match[0] if match[2] is None else match[2]

    pieces: list[str] = []
    for text, literal in token.parts:
        if literal:
            pieces.append(text)
            continue
        is_open = is_open or _OPEN.search(_VARIABLE.sub("", text)) is not None
        pieces.append(_VARIABLE.sub(value, text))
    return Word("".join(pieces)[:_EXPANDED_LIMIT], token.start, token.end, is_open)


def _tokens(text: str, comments: bool) -> Iterator[_Token | None]:
    """The words; None for an operator that ends a command."""
    index, size = 0, len(text)
    while index < size:
        char = text[index]
        if text.startswith(("\\\n", "\\\r\n"), index):
            index += 3 if text[index + 1] == "\r" else 2
        elif char in " \t\r\v\f" or (char == "\n" and not comments):
            index += 1
        elif char in ";|&()\n":
            index += 1
            yield None
        elif char in "<>":
            # What follows goes to or comes from a file and is no argument.
            index = _after_redirection(text, index)
        elif char == "#" and comments:
            end = text.find("\n", index)
            index = size if end < 0 else end
        else:
            token = _word(text, index)
            index = token.end
            if not (text[index : index + 1] in ("<", ">") and token.text.isdecimal()):
                yield token


def _after_redirection(text: str, index: int) -> int:
    while index < len(text) and text[index] in "<>&| \t":
        index += 1
    return _word(text, index).end if index < len(text) and text[index] not in ";\n()" else index


def _word(text: str, start: int) -> _Token:
    """The word at `start`."""
    parts: list[_Part] = []
    plain: list[str] = []
    index, size = start, len(text)

    def ended() -> None:
        if plain:
            parts.append(("".join(plain), False))
            plain.clear()

    while index < size:
        char = text[index]
        if text.startswith(("\\\n", "\\\r\n"), index):
            index += 3 if text[index + 1] == "\r" else 2
        elif char == "\\":
            if index + 1 >= size:
                raise UsageError("the launch line cannot be read: No escaped character")
            ended()
            parts.append((text[index + 1], True))
            index += 2
        elif char in "'\"":
            ended()
            index = _quoted(text, index, parts)
        elif char in " \t\r\v\f\n;|&()<>":
            break
        elif text.startswith("${", index) and (end := text.find("}", index, index + 256)) > 0:
            plain.append(text[index : end + 1])
            index = end + 1
        else:
            plain.append(char)
            index += 1
    cut = plain[-1:] == ["$"] and text[index : index + 1] == "("
    ended()
    return _Token(tuple(parts), start, index, cut)


def _quoted(text: str, start: int, parts: list[_Part]) -> int:
    """Add to `parts` what stands in the quotes that begin at `start`; the place after them."""
    quote = text[start]
    here: list[str] = []
    index = start + 1

    def ended() -> None:
        if here:
            parts.append(("".join(here), quote == "'"))
            here.clear()

    while index < len(text):
        char = text[index]
        if char == quote:
            ended()
            return index + 1
        if text.startswith(("\\\n", "\\\r\n"), index):
            # A shell keeps it within single quotes; pasted lines mean the continuation all the same.
            index += 3 if text[index + 1] == "\r" else 2
        elif char == "\\" and quote == '"' and text[index + 1 : index + 2] in ("\\", '"', "$", "`"):
            ended()
            parts.append((text[index + 1], True))
            index += 2
        else:
            here.append(char)
            index += 1
    raise UsageError("the launch line cannot be read: No closing quotation")


def without_documents(text: str) -> tuple[str, dict[str, str]]:
    """A script without its here-documents, and what they write: file name → content."""
    kept: list[str] = []
    documents: dict[str, str] = {}
    lines = text.split("\n")
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(number)
    index = 0
    while index < len(lines):
        line = lines[index]
        kept.append(line)
        index += 1
        begins = None if line.lstrip().startswith("#") else _DOCUMENT.search(line)
        if begins is None or len(documents) >= _DOCUMENTS_LIMIT:
            continue
        most = min(len(lines), index + _DOCUMENT_LINES)
        ends = places.get(begins[2], ())
        nearest = bisect_left(ends, index)
        end = ends[nearest] if nearest < len(ends) else most
        if end >= most:
            continue
        target = _REDIRECTED.search(line)
        if target is not None:
            documents[target[1].strip("'\"")] = "\n".join(lines[index:end])
        kept[-1] = line[: begins.start()] + line[begins.end() :]
        # Kept as empty lines, so that places in the text stay those of the script's lines.
        kept += [""] * (end + 1 - index)
        index = end + 1
    return "\n".join(kept), documents
