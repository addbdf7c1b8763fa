"""What vocab.json and `vocab build --format json` say of a new draft vocabulary: what was chosen, and why."""

from __future__ import annotations

from typing import Literal

from ckptdoctor.shapes import Count, Document, Shape, Share, item, itself

__all__ = ["Built"]


class TokenCounts(Shape):
    file: str = item(at=0)
    kind: str = item(at=1)
    total: Count = item(at=2)


class Chosen(Shape):
    covered: Count
    total: Count
    share: Share
    share_without_forced: Share = item(at=lambda built: built.best / built.total)


class Forced(Shape):
    group: str = item(at="name")
    ids: list[int]
    needs: str | None


class Head(Shape):
    rows: Count
    width: Count
    dtype: str
    from_: str = item(at="source")


class Built(Document):
    draft_vocab_size: Count = item(at="size")
    vocab_size: Count = item(at="vocabulary")
    order: Literal["ascending", "frequency"]
    target: str
    token_counts: TokenCounts = item(at="counts")
    coverage: Chosen = item(at=itself)
    forced: list[Forced] = item("The ids that are in whatever the counts say, by reason.", at="groups")
    forced_beyond_counts: list[int] = item("Those that the counts alone would not have taken.", at="added")
    head: Head | None = item(at=lambda built: None if built.head.left_out else built.head)
    head_left_out: str | None = item("Why there are no rows of the head.", at="head.left_out")
