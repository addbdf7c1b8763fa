"""The numbers of a launch line (steps, top k, tokens, blocks) against each other and against the draft."""

from __future__ import annotations

from collections.abc import Iterator

from ckptdoctor.facts.launch.draft_side import Seen
from ckptdoctor.facts.launch.methods import runs
from ckptdoctor.launch.deviations import NumberDeviation
from ckptdoctor.launch.engines import Method

__all__ = ["number_deviations"]


def number_deviations(seen: Seen) -> Iterator[NumberDeviation]:
    """What is wrong with the numbers of the method that runs."""
    if not seen.launch.speculates:
        return
    yield from _chain_only(seen)
    method = runs(seen)
    if method is None and seen.launch.method_word is None and not seen.is_open("method_word"):
        return
    if method is None or (seen.known and method.drafts and seen.algorithm not in method.drafts):
        return
    counts = method.counts
    if counts == "tree" and not seen.launch.adaptive:
        yield from _tree(seen)
    elif counts in ("block", "block_and_anchor"):
        yield from _block(seen, method)
    elif counts == "heads":
        yield from _heads(seen)
    if counts in ("chain", "block") and seen.line.raw["without_method"] == "infer":
        yield from _tokens_missing(seen, method)


def _chain_only(seen: Seen) -> Iterator[NumberDeviation]:
    """More than one candidate a step, where the engine or its attention backend drafts chains alone."""
    launch = seen.launch
    if launch.topk is None or launch.topk <= 1:
        return
    backends = seen.line.raw.get("chain_backends", ())
    changes: dict[str, object] = {"topk": 1}
    if launch.steps is not None and launch.draft_tokens is not None:
        changes["draft_tokens"] = launch.steps + 1
    chain_only = seen.line.raw.get("chain_only")
    if chain_only or launch.attention_backend in backends:
        alone = seen.line.name if chain_only else launch.attention_backend
        yield NumberDeviation("topk_unsupported", *seen.said("topk"), changes, wanted=1, chains_alone=alone)


def _tree(seen: Seen) -> Iterator[NumberDeviation]:
    """Steps, top k and tokens of a tree: a chain (top k 1) has one token a step and the one before it."""
    launch = seen.launch
    steps, topk, tokens = launch.steps, launch.topk, launch.draft_tokens
    if seen.is_open("steps", "topk", "draft_tokens"):
        return
    given = [name for name in ("steps", "topk", "draft_tokens") if getattr(launch, name) is not None]
    source = launch.source
    if not given:
        return
    if steps is None or topk is None or (tokens is None and topk != 1):
        missing = [name for name in ("steps", "topk", "draft_tokens") if getattr(launch, name) is None]
        full = _filled(steps, topk, tokens)
        changes = {name: full[name] for name in missing}
        lack = ", ".join(source.written(name) or name for name in missing)
        yield NumberDeviation("numbers_incomplete", *seen.said(given[0]), changes, missing=lack)
        return
    if tokens is None:
        return
    least, drafted = steps + 1, topk + (max(steps, 1) - 1) * topk * topk
    if topk == 1 and tokens != least:
        yield NumberDeviation("chain_tokens", *seen.instead("draft_tokens", least), wanted=least)
    elif topk > 1 and tokens < least:
        yield NumberDeviation("tokens_below_steps", *seen.instead("draft_tokens", least), wanted=least)
    elif topk > 1 and tokens - 1 > drafted:
        at = seen.instead("draft_tokens", drafted + 1)
        yield NumberDeviation("tokens_beyond_tree", *at, wanted=drafted + 1, drafted=drafted)


def _filled(steps: int | None, topk: int | None, tokens: int | None) -> dict[str, int]:
    """The three numbers with those that lack: a chain, unless a top k is given."""
    k = topk if topk is not None else 1
    n = steps if steps is not None else max(tokens - 1, 1) if tokens is not None and k == 1 else 3
    return {
        "steps": n,
        "topk": k,
        "draft_tokens": tokens if tokens is not None and k > 1 else n + 1 if k == 1 else 2 * k,
    }


def _block(seen: Seen, method: Method) -> Iterator[NumberDeviation]:
    """Tokens and blocks of a drafter that fills a block in one pass."""
    launch, trained = seen.launch, seen.block_size
    tree = seen.line.raw["without_method"] == "none"
    if tree:
        for name in ("steps", "topk"):
            value = getattr(launch, name)
            if value is not None and value != 1:
                yield NumberDeviation("forced_to_one", *seen.instead(name, None), wanted=1)
    if trained is None:
        return
    anchor = method.counts == "block_and_anchor"
    if launch.block_size is not None and launch.block_size != trained:
        at = seen.instead("block_size", trained)
        yield NumberDeviation("block_of_another_size", *at, wanted=trained, block_size=trained)
    if launch.draft_tokens is None:
        return
    if not tree:
        if launch.draft_tokens > trained:
            at = seen.instead("draft_tokens", trained)
            yield NumberDeviation("tokens_beyond_block", *at, wanted=trained, block_size=trained)
        return
    block = launch.block_size if launch.block_size is not None else trained
    fitting = block + 1 if anchor else block
    if launch.draft_tokens != fitting:
        kind = (
            "anchor_tokens" if anchor else "block_tokens_disagree" if launch.block_size is not None else "block_tokens"
        )
        yield NumberDeviation(kind, *seen.instead("draft_tokens", fitting), wanted=fitting, block_size=block)


def _heads(seen: Seen) -> Iterator[NumberDeviation]:
    """Tokens of multi-token-prediction heads: all of them, or as often as they divide."""
    tokens, heads = seen.launch.draft_tokens, seen.heads
    if seen.line.raw["without_method"] != "infer" or tokens is None or not heads or heads < 2:
        return
    if tokens > heads and tokens % heads:
        fitting = tokens // heads * heads
        at = seen.instead("draft_tokens", fitting)
        yield NumberDeviation("tokens_not_of_heads", *at, wanted=fitting, heads=heads)


def _tokens_missing(seen: Seen, method: Method) -> Iterator[NumberDeviation]:
    """No number of tokens, where the engine has none of its own."""
    if seen.launch.draft_tokens is not None or seen.is_open("draft_tokens") or method.method == "dspark":
        return
    trained = seen.block_size
    wanted = trained - 1 if method.counts == "block" and trained is not None and trained > 1 else 3
    yield NumberDeviation("tokens_missing", *seen.instead("draft_tokens", wanted), wanted=wanted)
