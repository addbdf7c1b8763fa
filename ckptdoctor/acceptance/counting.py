"""How many draft tokens a step has, from whatever says so: the number of the engine, steps, top k, the launch line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckptdoctor.acceptance.knowledge import Engine, engines
from ckptdoctor.launch.engines import engine_lines
from ckptdoctor.launch.line import Launch

__all__ = ["Counting", "counting_of", "counting_of_launch", "fills_blocks"]


@dataclass(frozen=True)
class Counting:
    """The draft tokens of a step.

    `tokens` is the number as the engine counts it, `proposed` the longest chain of proposals that can be accepted, so
    `most` = proposed + 1 tokens come out of a step at most; None where it is not known. `tree` tells that several
    candidates a step are tried (top k above 1). `assumed` tells that no engine is known and `tokens` is taken for the
    number of proposals. `source` says where the numbers stand.
    """

    engine: str | None = None
    tokens: int | None = None
    steps: int | None = None
    topk: int | None = None
    block: bool = False
    source: str | None = None

    @property
    def known(self) -> Engine | None:
        """The engine, where its way of counting is known."""
        return engines().get(self.engine) if self.engine is not None else None

    @property
    def assumed(self) -> bool:
        """Whether `tokens` is taken for the number of proposals without an engine that says so."""
        return self.known is None and self.steps is None and self.tokens is not None

    @property
    def chain_taken(self) -> bool:
        """Whether the tokens are taken for a chain, though the engine could have spread them over a tree."""
        open_ = self.topk is None and self.steps is None and not self.block
        return self.known is not None and self.known.trees and open_ and (self.proposed or 0) > 1

    @property
    def tree(self) -> bool:
        """Whether several candidates a step are tried."""
        return (self.topk or 1) > 1

    @property
    def proposed(self) -> int | None:
        """The longest chain of proposals that can be accepted in a step."""
        if self.tokens is None:
            return self.steps
        known = self.known
        most = max(self.tokens - (known.verified if known is not None else 0), 0)
        if self.steps is None or self.block:
            return most
        # With top k 1 SGLang sets its number to steps + 1, whatever the line says (server_args.py, 0.4.6 and later).
        return min(self.steps, most) if self.tree else self.steps

    @property
    def most(self) -> int | None:
        """Tokens that come out of a step at most."""
        return None if self.proposed is None else self.proposed + 1

    def or_else(self, other: Counting) -> Counting:
        """This, with what it does not say taken from `other`."""
        return replace(
            self,
            engine=self.engine or other.engine,
            tokens=self.tokens if self.tokens is not None else other.tokens,
            steps=self.steps if self.steps is not None or self.tokens is not None else other.steps,
            topk=self.topk if self.topk is not None else other.topk,
            block=self.block or other.block,
            source=self.source or other.source,
        )


def counting_of(engine: str | None, tokens: int | None, source: str | None = None) -> Counting:
    """The number that a person gives, as `engine` counts it."""
    return Counting(engine=engine, tokens=tokens, source=source)


def counting_of_launch(launch: Launch) -> Counting:
    """What a launch line says of the draft tokens."""
    block = fills_blocks(launch.engine, launch.method_word)
    # Block drafters take one step, whatever the line says of steps (rules/launch/sglang.yaml).
    return Counting(
        engine=launch.engine,
        tokens=launch.draft_tokens,
        steps=None if block else launch.steps,
        topk=None if block else launch.topk,
        block=block,
        source="the launch line",
    )


def fills_blocks(engine: str | None, method_word: str | None) -> bool:
    """Whether this engine means by the word an algorithm that fills a block in one pass (rules/launch)."""
    line = engine_lines().get(engine) if engine is not None else None
    method = line.method(method_word) if line is not None and method_word is not None else None
    return method is not None and method.counts in ("block", "block_and_anchor")
