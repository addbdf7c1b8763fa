"""Samples made on the spot: texts are run through a small local target with transformers, on the CPU in float32.

States are taken at every boundary by hooks on the decoder layers: `output_hidden_states` of transformers gives the last
one after the final norm only. No code of the target's folder is run, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.probe.samples.recorded_text import LONGEST, NOTHING_TO_GUESS, Budget, Progress, UnreadableError
from ckptdoctor.probe.samples.running_target import RunningTarget
from ckptdoctor.probe.samples.samples import Sample, Samples
from ckptdoctor.probe.samples.texts import Prompt, read_prompts
from ckptdoctor.probe.samples.walk import LeftOut, SampleFiles
from ckptdoctor.resources import shipped
from ckptdoctor.text import plural

__all__ = ["samples_from_target"]

_MOST_PROMPTS = 10_000


def samples_from_target(
    found: SampleFiles, *, target: str | None, limit: int | None, generate: int, tell: Progress | None = None
) -> Samples:
    """Run the target at `target` over the texts in `found`.

    Each text is continued greedily for `generate` tokens, or until the target ends it; those tokens are the counted
    ones. With `generate` 0 a text is taken as it is: the loss mask of its ids counts, or the last answer of its
    conversation, or else every token but the first. `answers` are the target's at every position; boundaries are 0 … L.

    Raises `CannotExamineError` where the target cannot be run or no text can be used.
    """
    if target is None:
        raise CannotExamineError(
            f"{found.files[0].name} holds text: name the folder of the target with its weights (--target), on which the"
            " text can be run; files with recorded hidden states need none"
        )
    running = RunningTarget(target)
    left_out = LeftOut("text")
    prompts = list(islice(_prompts(found, left_out), _MOST_PROMPTS))
    budget = Budget(limit, len(prompts))
    items: list[Sample] = []
    whole = tried = 0
    for prompt in prompts:
        tried += 1
        try:
            tokens, counted, guessed = _tokens_of(prompt, running, generate, budget)
            keep = budget.room(counted)
            if not keep:
                raise UnreadableError(NOTHING_TO_GUESS)
            states, answers = running.states(tokens[:keep])
        except UnreadableError as reason:
            left_out.add(prompt.name, reason)
            continue
        if items and items[0].states.shape[1:] != states.shape[1:]:
            raise CannotExamineError(f"{prompt.name}: the target gave states of another shape than before")
        items.append(Sample(prompt.name, tokens[:keep], counted[:keep], states, answers))
        budget.add(counted, keep)
        whole += guessed
        if tell is not None:
            tell("running the target", min(budget.taken, limit or budget.taken), limit or 0)
        if budget.full:
            break
    if not items:
        told = [out.first for out in (left_out, found.left_out) if len(out)]
        raise CannotExamineError(f"no text can be used; {told[0] if told else 'the files hold none'}")
    remarks = [*found.left_out.remarks(), *left_out.remarks(), *found.remarks]
    if whole:
        remarks.append(
            f"{plural(whole, 'text')} taken whole: every token but the first counts, though the target did not write it"
        )
    remarks += budget.remarks(len(items), tried, len(prompts), "text")
    boundaries = tuple(range(items[0].states.shape[1]))
    return Samples("target", tuple(items), boundaries, running.embedding, tuple(remarks))


def _prompts(found: SampleFiles, left_out: LeftOut) -> Iterator[Prompt]:
    for file in found.files:
        try:
            for row in read_prompts(file.place, file.name):
                if isinstance(row, Prompt):
                    yield row
                else:
                    left_out.add(*row)
        except UnreadableError as reason:
            found.left_out.add(file.name, reason)


def _tokens_of(prompt: Prompt, running: RunningTarget, generate: int, budget: Budget) -> tuple[Tensor, Tensor, bool]:
    """int64 [n] tokens, bool [n] counted, and whether the text is counted whole for want of anything better."""
    ids, written = _given(prompt, running, generate > 0)
    if not ids:
        raise UnreadableError("it has no tokens")
    if max(ids) >= running.vocabulary:
        raise UnreadableError(f"holds token {max(ids)}; the target has {running.vocabulary} tokens")
    if generate:
        if len(ids) > LONGEST - 1:
            raise UnreadableError(f"a prompt of {len(ids)} tokens; at most {LONGEST - 1} are taken")
        room = min(generate, LONGEST - len(ids))
        if budget.limit is not None:
            room = min(room, budget.limit - budget.taken)
        tokens = running.continued(torch.tensor(ids), room)
        return tokens, torch.arange(len(tokens)) >= len(ids), False
    tokens = torch.tensor(ids[:LONGEST])
    place = torch.arange(len(tokens))
    if prompt.mask is not None:
        return tokens, torch.tensor(prompt.mask[:LONGEST]), False
    return tokens, place >= max(written, 1), written == 0


def _given(prompt: Prompt, running: RunningTarget, to_answer: bool) -> tuple[list[int], int]:
    """The ids of a prompt, and where in them the last answer begins (0: not known).

    Of a conversation that is `to_answer`, the answers at its end are taken off.
    """
    if prompt.ids:
        return list(prompt.ids), 0
    if prompt.text is not None:
        return running.tokenised(prompt.text), 0
    messages: list[dict[str, Any]] = list(prompt.messages)
    answers = shipped("probe/samples")["messages"]["answers"]
    asked = list(messages)
    while asked and asked[-1]["role"] in answers:
        asked.pop()
    if not asked:
        raise UnreadableError("a conversation of answers alone")
    if to_answer:
        return running.templated(asked, True), 0
    ids = running.templated(messages, False)
    if len(asked) == len(messages):
        return ids, 0
    before = running.templated(asked, True)
    return ids, len(before) if ids[: len(before)] == before else 0
