"""One process of an engine with the recorder on: what is hooked, and when everything is taken away again."""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ckptdoctor.recorder import importing
from ckptdoctor.recorder.patches import Patches
from ckptdoctor.recorder.places import EnginePlaces, Quiet
from ckptdoctor.recorder.reach import arguments, first, function_at, reach
from ckptdoctor.recorder.settings import Settings
from ckptdoctor.recorder.target import TargetWatch
from ckptdoctor.recorder.watching import DraftWatch
from ckptdoctor.recorder.words import logger, say
from ckptdoctor.recorder.worker import Worker

__all__ = ["Session"]


class Session:
    """Finds the models as they are built, and watches the draft until its report (and its samples) are there."""

    def __init__(self, places: EnginePlaces, settings: Settings, log: Callable[[int, str], None] | None = None) -> None:
        self.places = places
        self.settings = settings
        self._log = log or logger().log
        self.patches = Patches()
        self.worker = Worker(self.failed)
        self.target: TargetWatch | None = None
        self.drafts: list[DraftWatch] = []
        self.quiet = 0
        self.stopped = False

    def start(self) -> None:
        """Hooks the functions that build models, now or when they are imported."""
        for place in self.places.built:
            module, _, name = place.partition(":")
            self._when(module, partial(self._replace, name))
        for quiet in self.places.quiet:
            self._when(quiet.module, partial(self._silence, quiet))

    def stop(self) -> None:
        """Takes every hook away. Any thread may call it."""
        self.stopped = True
        self.patches.undo()
        importing.forget()

    def failed(self, error: Exception) -> None:
        """Says once what went wrong, and stops; the engine goes on as if there were no recorder."""
        if self.stopped:
            return
        self.stop()
        with suppress(Exception):  # a log that cannot be written is no reason to stop an engine
            self.tell(say("log", "stopped", error=type(error).__name__, message=error), bad=True)

    def number_of(self, draft: object) -> int:
        """Which of the drafts of this process it is, from 1."""
        return next((number for number, known in enumerate(self.drafts, 1) if known is draft), 1)

    def tell(self, line: str, bad: bool = False) -> None:
        """One line in the log."""
        self._log(logging.WARNING if bad else logging.INFO, line)

    def finish(self, seconds: float | None = None) -> None:
        """Waits for what is under way, at most so long, saves the samples there are, and stops."""
        self.worker.wait(seconds)
        for draft in self.drafts:
            if draft.samples is not None:
                self.guarded(draft.samples.write)
        self.stop()

    def guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        """`work(*args)`, or None when it fails or the recorder has stopped."""
        if self.stopped:
            return None
        try:
            return work(*args)
        except Exception as error:  # noqa: BLE001 - never an error of ours inside an engine
            self.failed(error)
            return None

    def capturing(self) -> bool:
        """Whether CUDA graphs are being recorded: nothing that runs then is real."""
        import torch

        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return True
        return self._says_capturing()

    def _says_capturing(self) -> bool:
        return any(function() for function in map(function_at, self.places.capturing) if function is not None)

    def wait_for_graphs(self) -> None:
        """Waits, in the recorder's thread, until the engine records no graph: nobody may ask for events meanwhile."""
        while self._says_capturing():
            time.sleep(0.05)

    def speaks(self) -> bool:
        """Whether this process writes the lines: of several that hold parts of one draft only the first."""
        for place in self.places.rank:
            function = function_at(place)
            if function is not None:
                try:
                    return int(function()) == 0
                except Exception:  # noqa: BLE001 - no groups: one process
                    return True
        return True

    def _when(self, module: str, then: Callable[[types.ModuleType], None]) -> None:
        importing.when_imported(module, lambda found: self.guarded(then, found))

    def _replace(self, name: str, module: types.ModuleType) -> None:
        if callable(getattr(module, name, None)):
            self.patches.wrap(module, name, self._built)

    def _silence(self, quiet: Quiet, module: types.ModuleType) -> None:
        owner = getattr(module, quiet.owner, None)
        if isinstance(owner, type) and quiet.method in owner.__dict__:
            self.patches.wrap(owner, quiet.method, lambda o, a, k: self._quietly(quiet, o, a, k))

    def _quietly(self, quiet: Quiet, original: Any, args: Any, kwargs: Any) -> Any:
        made_up = self.guarded(_made_up, quiet, original, args, kwargs)
        if not made_up:
            return original(*args, **kwargs)
        self.quiet += 1
        try:
            return original(*args, **kwargs)
        finally:
            self.quiet -= 1

    def _built(self, original: Any, args: Any, kwargs: Any) -> Any:
        model = original(*args, **kwargs)
        self.guarded(self._watch, model, original, args, kwargs)
        return model

    def _watch(self, model: Any, original: Any, args: Any, kwargs: Any) -> None:
        given = arguments(original, args, kwargs)
        names = [cls.__name__ for cls in type(model).__mro__]
        places = next((p for p in map(self.places.draft, names) if p is not None), None)
        same = [reach(given, place) for place in self.places.draft_same]
        is_draft = (
            places is not None
            or any(reach(given, place) is True for place in self.places.draft_when)
            or (len(same) == 2 and same[0] is not None and same[0] is same[1])
        )
        if not is_draft:
            if self.target is None:
                self.target = TargetWatch(model, self.places, given)
                self.patches.wrap(model, "forward", self._target_passes)
            return
        if places is None:
            self.tell(say("log", "other_class", model_class=names[0]))
            return
        path = first(given, self.places.draft_path)
        watch = DraftWatch(self, model, places, str(path) if path else None)
        self.drafts.append(watch)
        watch.start()
        if self.speaks():
            self.tell(say("log", "watching", model_class=names[0], draft=path or "an unknown place"))

    def _target_passes(self, original: Any, args: Any, kwargs: Any) -> Any:
        if self.target is not None and self.target.in_graph is None and self.guarded(self.capturing):
            self.target.in_graph = self.guarded(self.target.boundaries) or None
        return original(*args, **kwargs)


def _made_up(quiet: Quiet, original: Any, args: Any, kwargs: Any) -> bool:
    if not quiet.when:
        return True
    given = arguments(original, args, kwargs)
    return any(given.get(name) is True for name in quiet.when)
