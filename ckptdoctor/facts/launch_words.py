"""Shell text → commands of words, each with its place in the text. Nothing is executed or expanded.

Quotes and backslashes are read as a POSIX shell does; `$name` and `${name}` are replaced where the text itself gives
the variable a plain value, and left as they are otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ckptdoctor.errors import UsageError

__all__ = ["Command", "Word", "commands_of", "without_documents"]

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^{}$]*))?\}|([A-Za-z_]\w*))")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_REDIRECTED = re.compile(r">{1,2}[ \t]*([^\s<>|;&]+)")
_DECLARING = ("export", "declare", "local", "readonly", "set", "env")
_OPEN = re.compile(r"\$[A-Za-z_{(]|`")
_EXPANDED_LIMIT = 64 * 1024
_DOCUMENTS_LIMIT = 64
_DOCUMENT_LINES = 4096


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
    Raises `UsageError` for quotes that do not close.
    """
    known: dict[str, str] = {}
    found: list[Command] = []
    words: list[Word] = []
    for token in (*_tokens(text, comments), None):
        if token is not None:
            words.append(_expanded(token, known))
            continue
        if words:
            found.append(_command(words, known))
            words = []
    return found


def _command(words: list[Word], known: dict[str, str]) -> Command:
    """The command, and into `known` what it sets for those after it."""
    first = 0
    while first < len(words) and _ASSIGNMENT.fullmatch(words[first].text):
        first += 1
    here = _assigned(words[:first])
    if first == len(words):
        known |= here
    elif words[first].text in _DECLARING:
        if words[first].text == "env":
            here |= _assigned(words[first:])
        else:
            known |= _assigned(words[first:])
    return Command(tuple(words), {**known, **here})


def _assigned(words: list[Word]) -> dict[str, str]:
    found = (_ASSIGNMENT.fullmatch(word.text) for word in words)
    return {match[1]: match[2] for match in found if match is not None}


def _expanded(token: tuple[Word, bool], known: Mapping[str, str]) -> Word:
    word, literal = token
    if literal or "$" not in word.text:
        return word

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return known.get(name, match[2] if match[2] is not None else match[0])

    # A value that holds a variable again stays as it is: one pass cannot run away.
    text = _VARIABLE.sub(value, word.text)[:_EXPANDED_LIMIT]
    return Word(text, word.start, word.end, _OPEN.search(text) is not None)


def _tokens(text: str, comments: bool) -> Iterator[tuple[Word, bool] | None]:
    """The words, each with whether it stood in single quotes alone; None for an operator that ends a command."""
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
            word, literal, index = _word(text, index)
            if not (text[index : index + 1] in ("<", ">") and word.text.isdecimal()):
                yield word, literal


def _after_redirection(text: str, index: int) -> int:
    while index < len(text) and text[index] in "<>&| \t":
        index += 1
    return _word(text, index)[2] if index < len(text) and text[index] not in ";\n()" else index


def _word(text: str, start: int) -> tuple[Word, bool, int]:
    """The word at `start`, whether it may not be expanded, and the place after it."""
    parts: list[str] = []
    index, size, literal = start, len(text), True
    while index < size:
        char = text[index]
        if text.startswith(("\\\n", "\\\r\n"), index):
            index += 3 if text[index + 1] == "\r" else 2
        elif char == "\\":
            if index + 1 >= size:
                raise UsageError("the launch line cannot be read: No escaped character")
            parts.append(text[index + 1])
            index += 2
        elif char in "'\"":
            part, index = _quoted(text, index)
            literal = literal and char == "'"
            parts.append(part)
        elif char in " \t\r\v\f\n;|&()<>":
            break
        else:
            literal = False
            if text.startswith("${", index) and 0 < (end := text.find("}", index)) - index < 256:
                parts.append(text[index : end + 1])
                index = end + 1
            else:
                parts.append(char)
                index += 1
    return Word("".join(parts), start, index), literal, index


def _quoted(text: str, start: int) -> tuple[str, int]:
    """What stands in the quotes that begin at `start`, and the place after them."""
    quote = text[start]
    parts: list[str] = []
    index = start + 1
    while index < len(text):
        char = text[index]
        if char == quote:
            return "".join(parts), index + 1
        if text.startswith(("\\\n", "\\\r\n"), index):
            # A shell keeps it within single quotes; pasted lines mean the continuation all the same.
            index += 3 if text[index + 1] == "\r" else 2
        elif char == "\\" and quote == '"' and text[index + 1 : index + 2] in ("\\", '"', "$", "`"):
            parts.append(text[index + 1])
            index += 2
        else:
            parts.append(char)
            index += 1
    raise UsageError("the launch line cannot be read: No closing quotation")


def without_documents(text: str) -> tuple[str, dict[str, str]]:
    """A script without its here-documents, and what they write: file name → content."""
    kept: list[str] = []
    documents: dict[str, str] = {}
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        kept.append(line)
        index += 1
        begins = None if line.lstrip().startswith("#") else _DOCUMENT.search(line)
        if begins is None or len(documents) >= _DOCUMENTS_LIMIT:
            continue
        most = min(len(lines), index + _DOCUMENT_LINES)
        end = next((i for i in range(index, most) if lines[i].strip() == begins[2]), None)
        if end is None:
            continue
        target = _REDIRECTED.search(line)
        if target is not None:
            documents[target[1].strip("'\"")] = "\n".join(lines[index:end])
        kept[-1] = line[: begins.start()] + line[begins.end() :]
        # Kept as empty lines, so that places in the text stay those of the script's lines.
        kept += [""] * (end + 1 - index)
        index = end + 1
    return "\n".join(kept), documents
