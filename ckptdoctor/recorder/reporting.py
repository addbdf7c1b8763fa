"""From a look that has arrived on the host to what was seen in it, and to a file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.recorder.intake import Look, map_seen
from ckptdoctor.recorder.observation import Observation
from ckptdoctor.recorder.places import DraftPlaces, EnginePlaces
from ckptdoctor.recorder.reach import first
from ckptdoctor.recorder.target import TargetWatch

__all__ = ["Loaded", "observation", "write_json"]


@dataclass(frozen=True)
class Loaded:
    """A draft as the engine has it: the model, where its class keeps things, its folder, and what no file filled."""

    model: Any
    places: DraftPlaces
    path: str | None
    unwritten: Mapping[str, str] | None


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


def observation(
    draft: Loaded,
    engine: EnginePlaces,
    target: TargetWatch | None,
    look: Look,
    values: dict[str, Any],
    shared: set[int] | None,
    map_at: str | None,
) -> Observation:
    """What one look at `draft` has seen. `shared` are the addresses of the target's parameters."""
    model, places = draft.model, draft.places
    unwritten = None
    if draft.unwritten is not None:
        here = {name: p.data_ptr() for name, p in model.named_parameters()}
        # A parameter that lies where one of the target's does has been replaced since.
        unwritten = {n: how for n, how in draft.unwritten.items() if here.get(n) not in (shared or ())}
    found_map = None
    if "map" in values and map_at is not None:
        written = map_at not in (draft.unwritten or ())
        found_map = map_seen(map_at, places.holds, values["map"], written)
    captured = target.captured() if target is not None else {}
    return Observation(
        model_class=type(model).__name__,
        engine=engine.engine or None,
        release=engine.release or None,
        draft=draft.path,
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
