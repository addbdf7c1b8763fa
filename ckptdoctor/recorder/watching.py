"""One draft in an engine: from its load to its first real pass, and on until its samples are full."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckptdoctor.outputs import same_place
from ckptdoctor.recorder.comparing import Verdict, seen_line, verdict
from ckptdoctor.recorder.intake import Look, find_map, fits_a_look
from ckptdoctor.recorder.observation import Observation
from ckptdoctor.recorder.places import DraftPlaces
from ckptdoctor.recorder.planned import plan_beside
from ckptdoctor.recorder.process import Process
from ckptdoctor.recorder.reach import arguments, first, reach
from ckptdoctor.recorder.reporting import Loaded, observation, write_json
from ckptdoctor.recorder.sampling import SampleFile, side_by_side
from ckptdoctor.recorder.transfer import Transfer
from ckptdoctor.recorder.variables import SWITCH
from ckptdoctor.recorder.words import say
from ckptdoctor.recorder.written import watch_loading

__all__ = ["DraftWatch"]


class DraftWatch:
    """Watches one model. The engine's thread only starts copies; the recorder's own thread reads them and reports.

    `pending` is True while a look waits for its verdict: passes in between are let through unseen. A look at states
    that are all zero (a dummy pass that no flag told) is forgotten, and the next pass is looked at.
    """

    def __init__(self, session: Process, model: Any, places: DraftPlaces, path: str | None) -> None:
        self.session = session
        self.places = places
        self.path = path
        self.unwritten: dict[str, str] | None = None
        self.reported = False
        self.pending = False
        self.samples: SampleFile | None = None
        self.folder = self._place()
        self.seen: Observation | None = None
        self.verdict: Verdict | None = None
        self._model = weakref.ref(model)
        self._half: tuple[Transfer, int] | None = None

    @property
    def model(self) -> Any:
        return self._model()

    def start(self) -> None:
        """Hooks the load, the method that takes the states and, for samples, the one that takes the tokens."""
        patches, model = self.session.patches, self.model
        if hasattr(model, "load_weights"):
            patches.wrap(model, "load_weights", self._load)
        patches.wrap(model, self.places.method, self._pass)
        settings, tokens = self.session.settings, self.places.tokens_method
        if tokens is None or not self.session.speaks():
            self.samples = None
        elif settings.tokens and self.folder is not None:
            self.samples = SampleFile(self.folder / self.file_name("samples", "safetensors"), settings.tokens)
        if self.samples is not None and tokens is not None and tokens != self.places.method:
            patches.wrap(model, tokens, self._tokens)

    def _place(self) -> Path | None:
        """The folder for the report and the samples; None in that of a model: an engine loads all weights in there."""
        folder = self.session.settings.folder
        target = self.session.target
        for path, what in ((self.path, "the draft"), (target.path if target is not None else None, "the target")):
            if folder is not None and path and same_place(folder, Path(path)):
                if self.session.speaks():
                    self.session.tell(say("settings", "of_model", folder=folder, what=what, switch=SWITCH), bad=True)
                return None
        return folder

    def file_name(self, what: str, ending: str) -> str:
        """A name that no other process writes to."""
        draft = self.session.number_of(self)
        several = "" if draft == 1 else f"-{draft}"
        return f"{what}-{self.session.places.engine}-{os.getpid()}{several}.{ending}"

    def _load(self, original: Any, args: Any, kwargs: Any) -> Any:
        if self.unwritten is not None:
            return original(*args, **kwargs)
        result, self.unwritten = watch_loading(self.model, lambda: original(*args, **kwargs), self.session.failed)
        return result

    def _pass(self, original: Any, args: Any, kwargs: Any) -> Any:
        look = self.session.guarded(self._begin, original, args, kwargs)
        if look is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            with suppress(Exception):
                look.end()
            self.session.guarded(self._end, look)

    def _begin(self, original: Any, args: Any, kwargs: Any) -> Look | None:
        session, places = self.session, self.places
        self._half = None
        if session.quiet or session.worker.busy or (self.pending and not self.samples) or session.capturing():
            return None
        given = arguments(original, args, kwargs)
        phase = "extend" if session.places.engine else None
        if places.phase is not None:
            found = places.phases.get(str(reach(given, places.phase)))
            if found is None:
                return None
            phase = found
        states = first(given, places.states)
        if not fits_a_look(states):
            return None
        paired = not any(reach(self.model, place) for place in places.unpaired)
        if self.samples is not None and not self.samples.full and paired:
            self._sample(states)
        if self.reported or self.pending:
            self._join_here(given)
            return None
        look = Look(self.model, places, phase)
        try:
            look.begin(states, self.state_width())
            mapped = find_map(self.model, places)
            if mapped is not None:
                look.transfer.take("map", mapped[1])
        except BaseException:
            look.end()
            raise
        self.pending = True
        look.given = given
        return look

    def _end(self, look: Look) -> None:
        given, look.given = look.given, {}
        model, target = self.model, self.session.target
        shared = target.addresses() if target is not None else None
        mapped = find_map(model, self.places)
        self.session.worker.do(lambda: self._judge(look, shared, mapped[0] if mapped else None))
        self._join_here(given)

    def _judge(self, look: Look, shared: set[int] | None, map_at: str | None) -> None:
        self.session.wait_for_graphs()
        values = look.transfer.values()
        if not values["norms"].any():
            self.pending = False
            return
        self.reported = True
        self.pending = False
        self._report(look, values, shared, map_at)
        if self.samples is None:
            self.session.stop()

    def _report(self, look: Look, values: dict[str, Any], shared: set[int] | None, map_at: str | None) -> None:
        """Two lines in the log and one JSON file of one look; runs in the recorder's own thread."""
        session, target = self.session, self.session.target
        model = Loaded(self.model, self.places, self.path, self.unwritten)
        seen = observation(model, session.places, target, look, values, shared, map_at)
        plan, why = plan_beside(seen.draft, seen.target, seen.engine, seen.release)
        found = verdict(seen, plan, why)
        self.seen, self.verdict = seen, found
        if self.samples is not None:
            boundaries = seen.captured.get(seen.phase or "extend")
            fitting = boundaries if boundaries and len(boundaries) == seen.states else None
            self.samples.describe(seen.engine, seen.release, fitting, seen.phase)
        if session.speaks():
            session.tell(seen_line(seen))
            session.tell(found.line, bad=not found.good)
        if self.folder is not None:
            path = self.folder / self.file_name("record", "json")
            write_json(
                path, {"seen": seen.as_json(), "good": found.good, "problems": found.problems, "line": found.line}
            )
            if session.speaks():
                session.tell(say("log", "report", path=path))

    def _sample(self, states: Any) -> None:
        assert self.samples is not None
        flat = states.reshape(-1, states.shape[-1])
        count = min(int(flat.shape[0]), self.samples.wanted)
        transfer = Transfer()
        transfer.take("states", flat[:count])
        self._half = (transfer, count)

    def _join_here(self, given: dict[str, Any]) -> None:
        """Where one method takes both: the tokens of this pass go beside its states."""
        if self.places.tokens_method == self.places.method:
            self._join(given)

    def _tokens(self, original: Any, args: Any, kwargs: Any) -> Any:
        if self._half is not None:
            self.session.guarded(lambda: self._join(arguments(original, args, kwargs)))
        return original(*args, **kwargs)

    def _join(self, given: dict[str, Any]) -> None:
        half, self._half = self._half, None
        if half is None:
            return
        transfer, count = half
        found = side_by_side(first(given, self.places.ids), first(given, self.places.positions), count)
        if found is None:
            return
        transfer.take("ids", found[0])
        transfer.take("positions", found[1])
        self.session.worker.do(lambda: self._keep(transfer))

    def _keep(self, transfer: Transfer) -> None:
        if not self.reported or self.samples is None or self.samples.full:
            return
        self.session.wait_for_graphs()
        values, state = transfer.values(), self.state_width()
        if not state or values["states"].shape[1] % state:
            return
        if self.samples.add(values["ids"], values["positions"], values["states"], state):
            self.session.tell(say("log", "samples", tokens=self.samples.tokens, path=self.samples.path))
            self.session.stop()

    def state_width(self) -> int:
        """T, the width of one state of the target, 0 where it is not known."""
        target = self.session.target
        if target is not None and target.width:
            return int(target.width)
        return int(first(self.model, ("config.target_hidden_size", "config.hidden_size"), 0))
