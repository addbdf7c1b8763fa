"""The ids that a draft vocabulary must hold whatever the counts say, in groups with the reason for each.

A token outside of it can never be drafted. The one that ends a turn costs a step in every answer, digits and byte
tokens are what rare text falls apart into, and training data without a chat template counts special tokens too low.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.tokenizer.single_pieces import NEVER_WRITTEN
from ckptdoctor.facts.tokenizer.token_texts import TokenTexts
from ckptdoctor.facts.tokenizer.tokens import describe_tokens
from ckptdoctor.facts.vocabulary.vocab import describe_vocab
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Group", "forced_groups", "read_ids"]

_IDS = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_MOST = 10_000_000
"""Ids that a list of forced ones may name: more than any vocabulary has."""


@dataclass(frozen=True)
class Group:
    """Target ids that are forced for one reason, ascending. `needs` says what is missing when they are not known."""

    name: str
    ids: tuple[int, ...]
    needs: str | None = None


def forced_groups(
    target: Target, root: Path, texts: Known[TokenTexts], size: int, named: Collection[int]
) -> tuple[Group, ...]:
    """The groups for the target in `root` with a vocabulary of `size` ids; `named` are those that the person names.

    An id is in the first group that it belongs to. Special tokens are those that the config, the tokenizer's files
    and the chat template name, not every reserved one.
    """
    known = knowledge()
    empty = Checkpoint(str(root), root, True, "safetensors", (), 0, {}, (), None)
    vocab = describe_vocab(empty, Config(None, known), {}, None, target, True)
    roles: dict[str, list[int]] = {}
    for token in describe_tokens(root, target, vocab).specials:
        roles.setdefault(token.role, []).append(token.id)
    found: list[tuple[str, Iterable[int], str | None]] = [(role, ids, None) for role, ids in roles.items()]
    if isinstance(texts, Unknown):
        found += [("digits", (), texts.needs), ("byte tokens", (), texts.needs)]
    else:
        digits = [i for i, piece in enumerate(texts.pieces) if len(piece) == 1 and piece in "0123456789"]
        bare = [i for i in texts.byte_ids if not _never_written(texts.pieces[i])]
        found += [("digits", digits, None), ("byte tokens", bare, None)]
    if named:
        found.append(("named by --force-ids", named, None))
    taken: set[int] = set()
    groups = []
    for name, ids, needs in found:
        new = {i for i in ids if 0 <= i < size or ids is named} - taken
        taken |= new
        groups.append(Group(name, tuple(sorted(new)), needs))
    return tuple(groups)


def _never_written(piece: str) -> bool:
    """Whether it is the token of a byte that no UTF-8 text has."""
    byte = _BYTE.fullmatch(piece)
    return byte is not None and int(byte[1], 16) in NEVER_WRITTEN


def read_ids(words: Sequence[str]) -> tuple[int, ...]:
    """The ids of `5`, `5,7`, `100-109` or `@FILE` (a text file of the same), ascending. Raises `UsageError`."""
    ids: set[int] = set()
    for word in words:
        for part in re.split(r"[\s,]+", _text(word).strip()):
            if not part:
                continue
            found = _IDS.fullmatch(part)
            if found is None:
                raise UsageError(f"--force-ids: '{show(part, 40)}' is no id and no range such as 100-109")
            first = int(found[1])
            last = first if found[2] is None else int(found[2])
            if last < first or last - first + len(ids) > _MOST:
                raise UsageError(f"--force-ids: '{show(part, 40)}' is no range of ids")
            ids.update(range(first, last + 1))
    return tuple(sorted(ids))


def _text(word: str) -> str:
    if not word.startswith("@"):
        return word
    try:
        return Path(word[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no text"
        raise UsageError(f"--force-ids: {show(word[1:])} cannot be read ({show(why)})") from None
