"""The target beside the draft that is watched."""

from __future__ import annotations

import weakref
from typing import Any

from ckptdoctor.recorder.places import EnginePlaces
from ckptdoctor.recorder.reach import first

__all__ = ["TargetWatch"]


class TargetWatch:
    """The target of this process: its folder and width, and which boundaries it captures."""

    def __init__(self, model: Any, places: EnginePlaces, given: dict[str, Any]) -> None:
        self._model = weakref.ref(model)
        self._places = places
        self.path: str | None = first(given, places.target_path)
        self.width: int | None = first(given, places.width)
        self.in_graph: tuple[int, ...] | None = None

    @property
    def model(self) -> Any:
        return self._model()

    def boundaries(self) -> tuple[int, ...] | None:
        """What the target's attribute says now; empty where it captures nothing, None where it says nothing."""
        if first(self.model, self._places.captures) is False:
            return ()
        value = first(self.model, self._places.layers)
        try:
            return None if value is None else tuple(int(v) for v in value)
        except (TypeError, ValueError):
            return None

    def captured(self) -> dict[str, tuple[int, ...]]:
        """Boundaries by phase. Eager passes read the attribute; a graph keeps what stood there when it was recorded."""
        now = self.boundaries()
        found = {"extend": now, "verify": now} if now else {}
        if self.in_graph:
            found["verify_graph"] = self.in_graph
        return found

    def addresses(self) -> set[int]:
        """Where the target's parameters lie: a parameter of the draft that lies there is shared."""
        model = self.model
        return {p.data_ptr() for p in model.parameters()} if model is not None else set()
