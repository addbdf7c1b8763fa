"""`record(model)`: the look at a draft in any torch program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ckptdoctor.recorder.observation import Observation
from ckptdoctor.recorder.places import EnginePlaces, places_in_programs
from ckptdoctor.recorder.sampling import SampleFile
from ckptdoctor.recorder.session import Session
from ckptdoctor.recorder.settings import Settings
from ckptdoctor.recorder.watching import DraftWatch

__all__ = ["Recording", "record"]

METHODS = ("combine_hidden_states", "project_hidden_states", "forward")
"""Methods that may hold fc; the first that the model has is looked at. SpecForge projects outside of forward."""


class Recording:
    """A running look. As a context manager it waits at its end for the report and takes its hooks away."""

    def __init__(self, session: Session, watch: DraftWatch) -> None:
        self._session = session
        self._watch = watch

    @property
    def line(self) -> str | None:
        """The verdict, None before the first pass over real states."""
        return self._watch.verdict.line if self._watch.verdict is not None else None

    @property
    def seen(self) -> Observation | None:
        """The figures behind it."""
        return self._watch.seen

    def stop(self) -> None:
        """Waits for what is under way, saves the samples there are, and takes every hook away."""
        self._session.finish()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def record(
    model: Any,
    *,
    draft_path: str | Path | None = None,
    log: Callable[[str], None] | None = None,
    samples: str | Path | None = None,
    tokens: int = 4096,
) -> Recording:
    """Looks at the first real pass of a draft (a torch.nn.Module with an fc) and says what arrived.

    `draft_path` is the folder it was loaded from, for the report. `log` takes the lines, by default they go to stderr.
    `samples` is a file for up to `tokens` tokens of samples, which `ckptdoctor probe` reads: the states that the draft
    is given (before fc), beside the `input_ids` it is given with them, which must be the next tokens.
    Nothing in the model is left changed after the report (or after the samples are full).
    """
    places = places_in_programs()
    method = next((name for name in METHODS if callable(getattr(model, name, None))), "forward")
    places = replace(places, method=method)
    engine = EnginePlaces("", "", (), (places,))
    taken = log
    session = Session(engine, Settings(), None if taken is None else lambda _level, line: taken(line))
    watch = DraftWatch(session, model, places, None if draft_path is None else str(draft_path))
    if samples is not None:
        watch.samples = SampleFile(Path(samples), tokens)
    session.drafts.append(watch)
    watch.start()
    return Recording(session, watch)
