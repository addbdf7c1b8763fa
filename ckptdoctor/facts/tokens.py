"""Special tokens against the draft vocabulary: which of them the draft can never propose.

A token outside the draft vocabulary is never drafted: the target writes it by itself and one step of
drafting is lost there. That is by design for rare tokens and costs every turn for the one that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.siblings import Siblings
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.vocab import VocabMap
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Token", "Tokens", "describe_tokens"]

_NO_TOKENIZER = "a tokenizer beside the target or the draft"


@dataclass(frozen=True)
class Token:
    """A special token: its target id, its text (`""` when only the id is known), and what it is for."""

    id: int
    text: str
    role: str

    def __str__(self) -> str:
        return f"{self.id} {show(self.text, 40)}".rstrip()


@dataclass(frozen=True)
class Tokens:
    """The special tokens, and those that the draft can never propose.

    `specials` are all that the config and the tokenizer files name as ending a text or a turn, or that
    the chat template writes. `turn_end` is the one that ends every assistant turn: one of the end
    tokens that the chat template writes.
    """

    specials: tuple[Token, ...]
    unreachable: Known[tuple[Token, ...]]
    turn_end: Known[Token]
    turn_end_reachable: Known[bool]


def describe_tokens(root: Path, target: Target | None, vocab: VocabMap) -> Tokens:
    """Look for tokenizer files beside the target, else beside the draft, and compare with the map."""
    places = [target.root] if target is not None and target.root is not None else []
    ends: list[int] = list(target.eos_token_ids) if target is not None else []
    book = _Book()
    for place in (*places, root):
        book = _read(Siblings(place))
        if book.texts or book.ends:
            break
    ends += [i for i in book.ends if i not in ends]
    written = [i for i, text in book.texts.items() if text and text in book.template]
    if "eos_token" in book.template and book.eos is not None:
        written.append(book.eos)
    specials = {i: Token(i, book.texts.get(i, ""), "ends a text or a turn") for i in ends}
    for i in written:
        specials.setdefault(i, Token(i, book.texts.get(i, ""), "written by the chat template"))
    known = _inside(specials.values(), vocab)
    closing = [i for i in ends if i in written]
    turn_end: Known[Token] = Unknown(f"{_NO_TOKENIZER} with a chat template")
    if closing:
        turn_end = specials[book.eos if book.eos in closing and book.eos is not None else closing[0]]
    allowed = vocab.proposable
    unreachable: Known[tuple[Token, ...]]
    reachable: Known[bool]
    if isinstance(allowed, Unknown):
        unreachable, reachable = allowed, allowed
    else:
        unreachable = () if allowed is None else tuple(t for t in known if t.id not in allowed)
        reachable = turn_end if isinstance(turn_end, Unknown) else allowed is None or turn_end.id in allowed
    if not known and not isinstance(unreachable, Unknown):
        unreachable = Unknown(_NO_TOKENIZER)
    return Tokens(known, unreachable, turn_end, reachable)


def _inside(tokens: Iterable[Token], vocab: VocabMap) -> tuple[Token, ...]:
    """Tokens inside the vocabulary: configs copied from another model name ids that do not exist."""
    size = vocab.size
    if isinstance(size, Unknown):
        return tuple(tokens)
    return tuple(t for t in tokens if 0 <= t.id < size)


@dataclass
class _Book:
    """What the tokenizer files of one folder say."""

    texts: dict[int, str]
    ends: list[int]
    eos: int | None
    template: str

    def __init__(self) -> None:
        self.texts, self.ends, self.eos, self.template = {}, [], None, ""


def _read(files: Siblings) -> _Book:
    book = _Book()
    settings = files.json("tokenizer_config.json")
    config: dict[str, Any] = settings.object if settings else {}
    added = config.get("added_tokens_decoder")
    if isinstance(added, dict):
        for key, entry in added.items():
            if key.isdecimal() and len(key) < 10 and isinstance(entry, dict) and isinstance(entry.get("content"), str):
                book.texts[int(key)] = entry["content"]
    if not book.texts:
        head = files.json_head("tokenizer.json", frozenset({"added_tokens"}))
        rows = head.object.get("added_tokens") if head else None
        for entry in rows if isinstance(rows, list) else ():
            if isinstance(entry, dict) and type(entry.get("id")) is int and isinstance(entry.get("content"), str):
                book.texts[entry["id"]] = entry["content"]
    book.template = _template(config.get("chat_template")) or files.text("chat_template.jinja") or ""
    eos = config.get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    book.eos = next((i for i, content in book.texts.items() if content == text), None)
    generation = files.json("generation_config.json")
    ends = generation.object.get("eos_token_id") if generation else None
    book.ends = [i for i in (ends if isinstance(ends, list) else [ends]) if type(i) is int]
    if book.eos is not None and book.eos not in book.ends:
        book.ends.append(book.eos)
    return book


def _template(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(v["template"] for v in value if isinstance(v, dict) and isinstance(v.get("template"), str))
    return ""
