"""From a look that has arrived on the host to the report: two lines in the log and one JSON file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.recorder.comparing import seen_line, verdict
from ckptdoctor.recorder.intake import Look, map_seen
from ckptdoctor.recorder.observation import Observation
from ckptdoctor.recorder.planned import plan_beside
from ckptdoctor.recorder.reach import first
from ckptdoctor.recorder.words import say

if TYPE_CHECKING:
    from ckptdoctor.recorder.watching import DraftWatch

__all__ = ["report", "write_json"]


def report(watch: DraftWatch, look: Look, values: dict[str, Any], shared: set[int] | None, map_at: str | None) -> None:
    """Writes the report of one look; runs in the recorder's own thread."""
    session = watch.session
    seen = _observation(watch, look, values, shared, map_at)
    plan, why = plan_beside(seen.draft, seen.target, seen.engine, seen.release)
    found = verdict(seen, plan, why)
    watch.seen, watch.verdict = seen, found
    if watch.samples is not None:
        boundaries = seen.captured.get(seen.phase or "extend")
        fitting = boundaries if boundaries and len(boundaries) == seen.states else None
        watch.samples.describe(seen.engine, seen.release, fitting, seen.phase)
    if session.speaks():
        session.tell(seen_line(seen))
        session.tell(found.line, bad=not found.good)
    if watch.folder is not None:
        path = watch.folder / watch.file_name("record", "json")
        write_json(path, {"seen": seen.as_json(), "good": found.good, "problems": found.problems, "line": found.line})
        if session.speaks():
            session.tell(say("log", "report", path=path))


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a report beside its place and moves it there."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"ckptdoctor": "record", **value}, file, indent=1, default=str)
            file.write("\n")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _observation(
    watch: DraftWatch, look: Look, values: dict[str, Any], shared: set[int] | None, map_at: str | None
) -> Observation:
    session, model, places = watch.session, watch.model, watch.places
    target = session.target
    unwritten = None
    if watch.unwritten is not None:
        here = {name: p.data_ptr() for name, p in model.named_parameters()}
        # A parameter that lies where one of the target's does has been replaced since.
        unwritten = {n: how for n, how in watch.unwritten.items() if here.get(n) not in (shared or ())}
    found_map = None
    if "map" in values and map_at is not None:
        written = map_at not in (watch.unwritten or ())
        found_map = map_seen(map_at, places.holds, values["map"], written)
    captured = target.captured() if target is not None else {}
    return Observation(
        model_class=type(model).__name__,
        engine=session.places.engine or None,
        release=session.places.release or None,
        draft=watch.path,
        target=target.path if target is not None else None,
        phase=look.phase,
        tokens=look.tokens,
        width=look.width,
        state=look.state,
        dtype=look.dtype,
        norms=tuple(float(n) for n in values["norms"]),
        fc_takes=look.fc_takes,
        fc_ran=look.fc_ran,
        norms_before_fc=tuple(dict.fromkeys(look.norms_ran)),
        map=found_map,
        embedding=_whose(model, places.embedding, shared),
        head=_whose(model, places.head, shared),
        unwritten=unwritten,
        captured=captured,
        captures_none=target is not None and target.boundaries() == (),
        vocabulary=first(model, ("config.vocab_size",)),
    )


def _whose(model: Any, places: tuple[str, ...], shared: set[int] | None) -> str | None:
    """`own` or `shared`, None where the target is not known or the draft has no such part."""
    weight = first(model, places)
    if weight is None or not shared:
        return None
    return "shared" if weight.data_ptr() in shared else "own"
