"""What a chat template writes, without running it: the special tokens in it, and those that close a message.

A template is Jinja. Tokens stand in it as literal text or as `eos_token`; comments, conditions and tests of a message's
text name tokens too and write none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint.siblings import Siblings

__all__ = ["Written", "read_template", "written_by"]

TEMPLATE_LIMIT = 256 * 1024
"""Characters of all templates of a model that are looked at."""
_MOST_TEXTS = 20_000
_LONGEST_TEXT = 200

_MOST_STEPS = 1_000_000
"""Texts that are compared with places of a template at most. Of a template that takes more nothing is said."""

# `{# … #}`, and `{% if … %}`, `{% elif … %}`, `{% for … %}`: nothing in them is written.
_SILENT = re.compile(r"\{(?=#|%[-+]?\s*(?:if|elif|for)\b)")
_CODE = re.compile(r"\{(?=[{%])")
_ENDS = {"#": "#}", "%": "%}", "{": "}}"}
# Tests and cuts of a message's text: `.split('</think>')`, `'<think>' in content`, `== '<|call|>'`.
_TESTS = re.compile(
    r"\.(?:split|rsplit|startswith|endswith|strip|lstrip|rstrip|replace|find|count|index)\([^()]*\)"
    r"|(?:'[^'\n]*'|\"[^\"\n]*\")\s+(?:not\s+)?in\b"
    r"|[=!]=\s*(?:'[^'\n]*'|\"[^\"\n]*\")"
)
_EOS = re.compile(r"\beos_token\b")
_CONTENT = re.compile(r"\b(?:\w+_)?content\b")
# `'<|' + message['role'] + '|>'` writes one marker for each role.
_ROLE = (re.compile(r"<\|['\"]\s*[+~]"), re.compile("role"), re.compile(r"[+~]\s*['\"]\|>"))
_ROLE_TEXT = re.compile(r"<\|(?:system|user|assistant|tool|function|developer|ipython)\|>")


@dataclass(frozen=True)
class Written:
    """The ids that templates write. `ids` are all, in the order of their first place; `after_content` counts how often
    one is the next token after the text of a message: most often it is the one that closes it."""

    ids: tuple[int, ...]
    after_content: Mapping[int, int]


def read_template(files: Siblings, settings: Mapping[str, Any]) -> str:
    """All chat templates of a folder in one text: chat_template.jinja, chat_template.json, and those in
    tokenizer_config.json (`settings`), one or a list with names; `""` where there is none."""
    beside = files.json("chat_template.json")
    found = [
        files.text("chat_template.jinja") or "",
        *_templates(beside.object.get("chat_template") if beside else None),
        *_templates(settings.get("chat_template")),
    ]
    return "\n".join(dict.fromkeys(text for text in found if text))[:TEMPLATE_LIMIT]


def _templates(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict):
        return tuple(v for v in value.values() if isinstance(v, str))
    if isinstance(value, list):
        return tuple(v["template"] for v in value if isinstance(v, dict) and isinstance(v.get("template"), str))
    return ()


def written_by(template: str, texts: Mapping[int, str], eos: int | None) -> Written:
    """The tokens that `template` writes, of those with these `texts`; the longest text wins where several would do.

    `eos` is the id behind `eos_token`.
    """
    spoken = _TESTS.sub(" ", _without_silent(template))
    places = _literal(spoken, texts)
    if places is None:
        return Written((), {})
    code = list(_spans(_CODE, spoken))
    if eos is not None:
        places += [(m.start(), eos) for start, end in code for m in _EOS.finditer(spoken, start, end)]
    contents = [m.end() for start, end in code for m in _CONTENT.finditer(spoken, start, end)]
    places.sort()
    ids = dict.fromkeys(token for _, token in places)
    if _writes_roles(spoken):
        ids |= dict.fromkeys(token for token, text in texts.items() if _ROLE_TEXT.fullmatch(text))
    after: Counter[int] = Counter()
    waiting = iter(places)
    place = next(waiting, None)
    for content in contents:
        while place is not None and place[0] < content:
            place = next(waiting, None)
        if place is None:
            break
        after[place[1]] += 1
    return Written(tuple(ids), after)


def _spans(begins: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of what begins so and ends, none within another. Every place of the text is looked at once."""
    at = 0
    endless: set[str] = set()
    for match in begins.finditer(text):
        start = match.start()
        mark = _ENDS[text[start + 1]]
        if start < at or mark in endless:
            continue
        end = text.find(mark, start + 2)
        if end < 0:
            endless.add(mark)
            continue
        at = end + 2
        yield start, at


def _without_silent(template: str) -> str:
    kept: list[str] = []
    at = 0
    for start, end in _spans(_SILENT, template):
        kept.append(template[at:start])
        at = end
    return " ".join([*kept, template[at:]])


def _writes_roles(text: str) -> bool:
    """Whether a marker is put together from the role of a message, without braces in between."""
    for piece in re.split("[{}]", text):
        at = 0
        for part in _ROLE:
            found = part.search(piece, at)
            if found is None:
                break
            at = found.end()
        else:
            return True
    return False


def _literal(template: str, texts: Mapping[int, str]) -> list[tuple[int, int]] | None:
    """(place, id) of each text that stands in `template`; texts do not overlap, and the longest comes first.

    None where that takes too long to find out.
    """
    usable = [(token, text) for token, text in list(texts.items())[:_MOST_TEXTS] if 0 < len(text) <= _LONGEST_TEXT]
    known = {text: token for token, text in reversed(usable) if text.strip()}
    lengths: dict[str, set[int]] = {}
    for text in known:
        lengths.setdefault(text[0], set()).add(len(text))
    if not lengths:
        return []
    longest = {first: sorted(found, reverse=True) for first, found in lengths.items()}
    begins = re.compile(f"[{''.join(map(re.escape, longest))}]")
    places: list[tuple[int, int]] = []
    at = steps = 0
    while (match := begins.search(template, at)) is not None:
        at = match.start() + 1
        for length in longest[match.group()]:
            steps += 1
            token = known.get(template[match.start() : match.start() + length])
            if token is not None:
                places.append((match.start(), token))
                at = match.start() + length
                break
        if steps > _MOST_STEPS:
            return None
    return places
