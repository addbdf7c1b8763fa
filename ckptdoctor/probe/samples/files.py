"""Reads samples for a probe from the files that people have: `read_samples`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.probe.samples.containers import opened_pickle, read_safetensors
from ckptdoctor.probe.samples.masks import Datasets
from ckptdoctor.probe.samples.recorded import UNKNOWN_FIRST, UNKNOWN_WRITER, is_recorded, read_recorded
from ckptdoctor.probe.samples.recorded_text import NOTHING_TO_GUESS, Budget, Progress, RecordedText, UnreadableError
from ckptdoctor.probe.samples.samples import Sample, Samples
from ckptdoctor.probe.samples.specforge import is_specforge, read_specforge
from ckptdoctor.probe.samples.speculators import (
    is_speculators,
    is_speculators_pickle,
    read_speculators,
    read_speculators_pickle,
)
from ckptdoctor.probe.samples.target_states import TargetStates, open_target
from ckptdoctor.probe.samples.walk import LeftOut, SampleFile, SampleFiles, gather
from ckptdoctor.text import listing, plural, show

__all__ = ["read_samples"]

_NO_ANSWER = -1


def read_samples(
    paths: Sequence[str],
    *,
    target: str | None = None,
    limit: int | None = None,
    generate: int = 0,
    tell: Progress | None = None,
) -> Samples:
    """The samples at `paths`, files or folders: SpecForge's features, speculators' hidden states, what the recorder
    saved, or texts that the target at `target` is run on.

    `target` is the path of the target: its weights are needed for texts (each of which it goes on with for `generate`
    tokens; 0 takes them as they are), and give recorded states their answers. `limit` is how many counted tokens are
    wanted at most; they are shared out among the texts. `tell` is told how far it is. `answers` are known where the
    next token is counted, -1 elsewhere.

    Raises `CannotExamineError` where there are no samples, they are of different forms or sizes, or what they need is
    not there; `UsageError` for a `limit` below one. Files that cannot be read are left out, and named in `remarks`.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"a limit of {limit} leaves no tokens; give a number of 1 or more")
    found = gather(paths)
    if found.texts:
        if generate < 0:
            raise UsageError(f"{generate} tokens cannot be generated; give 0 or more")
        from ckptdoctor.probe.samples.from_target import samples_from_target

        return samples_from_target(found, target=target, limit=limit, generate=generate, tell=tell)
    return _recorded(found, open_target(target) if target else None, limit, tell)


def _recorded(found: SampleFiles, target: TargetStates | None, limit: int | None, tell: Progress | None) -> Samples:
    datasets = Datasets(found.folders)
    budget = Budget(limit, len(found.files))
    texts: list[RecordedText] = []
    silent = LeftOut("text")
    read = 0
    for file in found.files:
        read += 1
        try:
            for text in _texts_of(file, target, datasets):
                if budget.full:
                    break
                _check_alike(texts, text, target)
                _check_ids(text, target)
                keep = budget.room(text.counted)
                if keep:
                    texts.append(text.cut(keep))
                    budget.add(text.counted, keep)
                else:
                    silent.add(text.name, NOTHING_TO_GUESS)
        except UnreadableError as reason:
            found.left_out.add(file.name, reason)
        if tell is not None:
            tell("reading samples", min(budget.taken, limit or budget.taken), limit or 0)
        if budget.full:
            break
    if not texts:
        told = [out.first for out in (found.left_out, silent) if len(out)]
        why = told[0] if told else "they hold no text"
        raise CannotExamineError(f"no sample can be read from {plural(len(found.files), 'file')}; {why}")
    remarks = [*found.left_out.remarks(), *silent.remarks(), *found.remarks, *datasets.remarks()]
    remarks += budget.remarks(len(texts), read, len(found.files), "file")
    if texts[0].form == "recorded":
        remarks += [UNKNOWN_FIRST, UNKNOWN_WRITER]
    return _with_target(texts, target, remarks, tell)


def _texts_of(file: SampleFile, target: TargetStates | None, datasets: Datasets) -> Iterator[RecordedText]:
    """The texts of one file, whatever form it is of. Raises `UnreadableError`."""
    width = target.width if target else None
    if file.container == "safetensors":
        tensors, metadata = read_safetensors(file.place)
        if is_recorded(tensors, metadata):
            yield from read_recorded(tensors, metadata, file.name, width)
        elif is_speculators(tensors):
            yield read_speculators(tensors, file.place, file.name, target.layers if target else None, datasets)
        else:
            raise UnreadableError(
                f"holds {listing(tensors)}; hidden states of speculators are token_ids and hidden_states, those of the"
                " recorder next_token_ids, position_ids and hidden_states"
            )
        return
    with opened_pickle(file.place, packed=file.container == "gzip") as content:
        if is_speculators_pickle(content):
            yield read_speculators_pickle(content, file.name)
        elif is_specforge(content):
            yield read_specforge(content, file.name, width)
        else:
            raise UnreadableError(
                f"holds {listing(content)}; features of SpecForge are input_ids, loss_mask, hidden_state and"
                " aux_hidden_state, those of speculators input_ids, loss_mask and a list of hidden_states"
            )


def _check_alike(texts: list[RecordedText], text: RecordedText, target: TargetStates | None) -> None:
    """All texts are of one form, one width and the same columns, or there is nothing to compare."""
    width = text.states.shape[2]
    if target is not None and target.width is not None and target.width != width:
        raise CannotExamineError(
            f"{text.name}: its states are {width} wide, but the target {show(target.target.path)} is {target.width}"
            " wide; they were recorded from another target"
        )
    if not texts:
        return
    first = texts[0]
    if first.form != text.form:
        raise CannotExamineError(
            f"{first.name} is of the form of {first.form} and {text.name} of {text.form}; name samples of one form"
        )
    if first.states.shape[2] != width:
        raise CannotExamineError(
            f"{first.name} has states {first.states.shape[2]} wide and {text.name} {width} wide; name samples of one"
            " target"
        )
    if first.boundaries != text.boundaries:
        one, other = (_columns(t.boundaries) for t in (first, text))
        raise CannotExamineError(
            f"{first.name} has {one} and {text.name} {other}; name samples that were recorded in the same way"
        )


def _columns(boundaries: tuple[int | None, ...]) -> str:
    known = [b for b in boundaries if b is not None]
    where = f" (boundaries {', '.join(map(str, known))})" if len(known) == len(boundaries) else ""
    return f"{plural(len(boundaries), 'state')} at each token{where}"


def _check_ids(text: RecordedText, target: TargetStates | None) -> None:
    vocabulary = target.vocabulary if target else None
    if vocabulary is not None and int(text.tokens.max()) >= vocabulary:
        raise UnreadableError(f"holds token {int(text.tokens.max())}; the target has {vocabulary} tokens")


@dataclass(frozen=True)
class _Asked:
    """The positions of one text whose answers are wanted, and the target's last states there."""

    places: torch.Tensor
    final: torch.Tensor


def _with_target(
    texts: list[RecordedText], target: TargetStates | None, remarks: list[str], tell: Progress | None
) -> Samples:
    answers: list[torch.Tensor | None] = [None] * len(texts)
    embedding = None
    if target is not None:
        asked = [_asked(text, target) for text in texts]
        known = [a for a in asked if a is not None]
        if target.problem is not None:
            remarks.append(f"the target's own answers are not known: {target.problem}; the texts stand for them")
        elif len(known) < len(texts):
            remarks.append(
                "the target's own answers are not known: its last states are not recorded; the texts stand for them"
            )
        else:
            found = target.answers([a.final for a in known], tell)
            for number, (a, best) in enumerate(zip(known, found, strict=True)):
                answers[number] = torch.full((len(texts[number].tokens),), _NO_ANSWER).index_copy(0, a.places, best)
        embedding = target.embedding(tell)
    items = tuple(
        Sample(text.name, text.tokens, text.counted, text.states, answer)
        for text, answer in zip(texts, answers, strict=True)
    )
    return Samples(texts[0].form, items, texts[0].boundaries, embedding, tuple(remarks))


def _asked(text: RecordedText, target: TargetStates) -> _Asked | None:
    """Where the next token counts; None where the text has no last state of the target."""
    final = text.final
    if final is None and target.layers is not None and target.layers in text.boundaries:
        final = text.states[:, text.boundaries.index(target.layers)]
    if final is None:
        return None
    places = text.counted[1:].nonzero()[:, 0]
    return _Asked(places, final[places])
