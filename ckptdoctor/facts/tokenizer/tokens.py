"""Special tokens against the draft vocabulary: which of them the draft can never propose.

A token outside the draft vocabulary is never drafted: the target writes it by itself and one step of
drafting is lost there. That is by design for rare tokens and costs every turn for the one that ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.siblings import Siblings
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.tokenizer.chat_templates import Written, read_template, written_by
from ckptdoctor.facts.tokenizer.own_tokenizer import (
    ConfigToken,
    OtherTokenizer,
    config_tokens,
    differs,
    holds_tokenizer,
)
from ckptdoctor.facts.tokenizer.single_pieces import NEVER_WRITTEN, SinglePieces, read_single_pieces
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["SingleTokens", "Token", "Tokens", "describe_tokens"]

_NO_TOKENIZER = "a tokenizer beside the target or the draft"
_NO_SINGLES = Unknown(_NO_TOKENIZER)
_ENDS_TURN = "ends every assistant turn"
_ENDS = "ends a text or a turn"
_WRITTEN = "written by the chat template"
_ADDED = "added to the tokenizer"


@dataclass(frozen=True)
class Token:
    """A special token: its target id, its text (`""` when only the id is known), and what it is for."""

    id: int
    text: str
    role: str

    def __str__(self) -> str:
        return f"{self.id} {show(self.text, 40)}".rstrip()

    @property
    def told(self) -> str:
        """The token with what it is for: `151657 <tool_call> (tool calls)`."""
        return f"{self} ({self.role})"


@dataclass(frozen=True)
class SingleTokens:
    """Tokens of single bytes (those that UTF-8 text has) or of single digits: how many there are, how many of them the
    draft can propose, and the ids of the others, ascending."""

    total: int
    inside: int
    missing_ids: tuple[int, ...]


@dataclass(frozen=True)
class Tokens:
    """The special tokens, and those that the draft can never propose.

    `specials` are all that the config and the tokenizer files name as ending a text or a turn, all that
    a chat template writes, and the added tokens that mark tool calls and reasoning. `turn_end` is the one that ends
    every assistant turn: what the chat template writes after the text of a message, of those that the configs name as
    an end. `turn_ends` are all such, `turn_end` first (gpt-oss ends answers with one token, tool calls with another).
    `bytes` and `digits` are the tokens of single bytes and digits. `brought` says that the draft brings a tokenizer of
    its own, `other` how it differs from the target's if it is of another family, and `beyond` its added tokens that the
    draft's vocabulary does not reach. `configured` are the special ids of the draft's config.
    """

    specials: tuple[Token, ...]
    unreachable: Known[tuple[Token, ...]]
    turn_end: Known[Token]
    turn_end_reachable: Known[bool]
    turn_ends: tuple[Token, ...] = ()
    bytes: Known[SingleTokens] = _NO_SINGLES
    digits: Known[SingleTokens] = _NO_SINGLES
    brought: bool = False
    other: Known[OtherTokenizer | None] = _NO_SINGLES
    beyond: tuple[Token, ...] = ()
    configured: tuple[ConfigToken, ...] = ()

    @property
    def unreachable_told(self) -> Known[tuple[str, ...]]:
        """`unreachable`, each with what it is for."""
        return self.unreachable if isinstance(self.unreachable, Unknown) else tuple(t.told for t in self.unreachable)


def describe_tokens(root: Path, target: Target | None, vocab: VocabMap, config: Config | None = None) -> Tokens:
    """Look for tokenizer files beside the target, else beside the draft, and compare with the map.

    With `config`, the special ids that it names are looked at too.
    """
    places = [target.root] if target is not None and target.root is not None else []
    mine = Siblings(root)
    own = _read(mine)
    theirs = _read(Siblings(places[0])) if places else _Book()
    ends: list[int] = list(target.eos_token_ids) if target is not None else []
    for book in (theirs, own):
        if book.texts or book.ends:
            break
    ends += [i for i in book.ends if i not in ends]
    words = knowledge().tokens
    written = written_by(book.template, book.texts, book.eos)
    turn_ends = _turn_ends(ends, written, book, words)
    specials = _specials(ends, written, turn_ends, book.texts, words)
    known = _inside(specials.values(), vocab)
    closing = _inside((specials[i] for i in turn_ends), vocab)
    turn_end: Known[Token] = closing[0] if closing else Unknown(f"{_NO_TOKENIZER} with a chat template")
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
    singles = _singles((*places, root), allowed)
    claimed = vocab.claimed_size
    beyond = () if claimed is None else tuple(Token(i, t, _ADDED) for i, t in sorted(own.texts.items()) if i >= claimed)
    return Tokens(
        known, unreachable, turn_end, reachable, closing, *singles,
        brought=holds_tokenizer(mine.names),
        other=differs(own.texts, theirs.texts),
        beyond=beyond,
        configured=() if config is None else config_tokens(config, vocab.size, target),
    )  # fmt: skip


def _turn_ends(ends: list[int], written: Written, book: _Book, words: Mapping[str, Any]) -> list[int]:
    """The ids that end an assistant turn, the most certain first.

    Those that templates write right after a message and configs name as an end. Without one: the markers of the next
    turn, where configs name them as ends; other ends that templates write; and, where no config names any end, what
    usually ends a turn. A base model's config names an end that the template of its chat model does not write: none.
    """
    texts = book.texts
    markers = [i for i in ends if texts.get(i) in words["next_turns"]]
    after = [i for i in ends if written.after_content.get(i) and i not in markers]
    if after:
        after.sort(key=lambda i: (i != book.eos, -written.after_content[i]))
        return after
    markers = [i for i in markers if i in written.ids]
    if markers:
        return sorted(markers, key=lambda i: words["next_turns"].index(texts[i]))
    others = sorted((i for i in ends if i in written.ids), key=lambda i: i != book.eos)
    if ends:
        return others
    return [i for text in words["turn_ends"] for i in written.ids if texts.get(i) == text][:1]


def _specials(
    ends: list[int], written: Written, turn_ends: list[int], texts: Mapping[int, str], words: Mapping[str, Any]
) -> dict[int, Token]:
    roles = [(row["role"], re.compile(row["text"], re.IGNORECASE)) for row in words["roles"]]

    def purpose(token: int) -> str | None:
        text = texts.get(token, "")
        return next((role for role, pattern in roles if pattern.search(text)), None)

    found: dict[int, Token] = {}
    for i in (*turn_ends, *ends, *written.ids):
        usual = _ENDS_TURN if i == next(iter(turn_ends), None) else _ENDS if i in ends or i in turn_ends else None
        found.setdefault(i, Token(i, texts.get(i, ""), usual or purpose(i) or _WRITTEN))
    for i in texts:
        role = purpose(i) if i not in found else None
        if role is not None:
            found[i] = Token(i, texts[i], role)
    return found


def _singles(
    places: Iterable[Path], allowed: Known[frozenset[int] | None]
) -> tuple[Known[SingleTokens], Known[SingleTokens]]:
    """The tokens of single bytes and of digits. The vocabulary is looked through only where a map leaves tokens out."""
    if isinstance(allowed, Unknown):
        return allowed, allowed
    if allowed is None:
        every = Unknown("a draft vocabulary that leaves tokens out")
        return every, every
    pieces: Known[SinglePieces] = Unknown(_NO_TOKENIZER)
    for place in places:
        pieces = read_single_pieces(place)
        if not isinstance(pieces, Unknown):
            break
    if isinstance(pieces, Unknown):
        return pieces, pieces
    used = [token for byte, token in pieces.bytes.items() if byte not in NEVER_WRITTEN]
    no_bytes, no_digits = Unknown("tokens of single bytes in the tokenizer"), Unknown("a token for each digit")
    return (
        _single(used, allowed) if used else no_bytes,
        _single(pieces.digits, allowed) if len(pieces.digits) == 10 else no_digits,
    )


def _single(ids: Iterable[int], allowed: frozenset[int]) -> SingleTokens:
    every = sorted(set(ids))
    missing = tuple(i for i in every if i not in allowed)
    return SingleTokens(len(every), len(every) - len(missing), missing)


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
    book.template = read_template(files, config)
    eos = config.get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    book.eos = next((i for i, content in book.texts.items() if content == text), None)
    generation = files.json("generation_config.json")
    ends = generation.object.get("eos_token_id") if generation else None
    book.ends = [i for i in (ends if isinstance(ends, list) else [ends]) if type(i) is int]
    if book.eos is not None and book.eos not in book.ends:
        book.ends.append(book.eos)
    return book
