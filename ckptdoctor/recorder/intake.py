"""One look: what arrives at a draft in one pass. Nothing here waits for a device."""

from __future__ import annotations

from typing import Any

from ckptdoctor.recorder.observation import MapSeen
from ckptdoctor.recorder.patches import Patches
from ckptdoctor.recorder.places import DraftPlaces
from ckptdoctor.recorder.reach import first, reach
from ckptdoctor.recorder.transfer import Transfer

__all__ = ["Look", "find_map", "fits_a_look", "map_seen", "mean_norms"]

TOKENS = 256
"""Tokens of which the lengths of states are taken: the cost of the look does not grow with the prompt."""


class Look:
    """The open look of one pass: fc and the norms before it are watched from `begin` to `end`, and not longer."""

    def __init__(self, model: Any, places: DraftPlaces, phase: str | None) -> None:
        self.model = model
        self.phase = phase
        self.transfer = Transfer()
        self.fc_ran = False
        self.norms_ran: list[str] = []
        self.width = 0
        self.tokens = 0
        self.dtype = ""
        self.fc_takes: int | None = None
        self.state = 0
        self.given: dict[str, Any] = {}
        self._places = places
        self._patches = Patches()

    def begin(self, states: Any | None, state: int) -> None:
        """Takes the figures of the states [..., W] and starts to watch fc. Without states they are what fc is given."""
        fc = first(self.model, self._places.fc)
        self.state = state
        if fc is not None:
            self.fc_takes = width_of(fc)
            self._patches.wrap(fc, "forward", self._fc)
        if states is not None:
            self._measure(states)
        for place in self._places.norms:
            module = reach(self.model, place)
            for name, part in _parts(place, module):
                self._patches.wrap(part, "forward", self._norm(name))

    def end(self) -> None:
        """Nothing of the look is left in the model after this."""
        self._patches.undo()

    def _fc(self, original: Any, args: Any, kwargs: Any) -> Any:
        self.fc_ran = True
        given = args[0] if args else next(iter(kwargs.values()), None)
        if not self.width and given is not None:
            self._measure(given)
        return original(*args, **kwargs)

    def _norm(self, name: str) -> Any:
        def around(original: Any, args: Any, kwargs: Any) -> Any:
            self.norms_ran.append(name)
            return original(*args, **kwargs)

        return around

    def _measure(self, states: Any) -> None:
        flat = states.detach().reshape(-1, states.shape[-1])
        self.tokens, self.width = int(flat.shape[0]), int(flat.shape[1])
        self.dtype = str(states.dtype).removeprefix("torch.")
        self.transfer.take("norms", mean_norms(flat, self.state))


def mean_norms(flat: Any, state: int) -> Any:
    """float32 [S]: mean length of each of the S states side by side in `flat` [n, S·state], over the first tokens."""
    taken = flat[:TOKENS].float()
    parts = taken.shape[1] // state if state and taken.shape[1] % state == 0 else 1
    return taken.reshape(taken.shape[0], parts, -1).norm(dim=-1).mean(0)


def width_of(fc: Any) -> int | None:
    """The width that a projection takes: torch says in_features, layers of engines input_size."""
    for name in ("in_features", "input_size"):
        value = getattr(fc, name, None)
        if isinstance(value, int):
            return value
    shape = getattr(getattr(fc, "weight", None), "shape", None)
    return int(shape[-1]) if shape is not None and len(shape) == 2 else None


def fits_a_look(states: Any) -> bool:
    """Whether these are states of tokens: floating, with a dimension for tokens, and not of none."""
    import torch

    return (
        isinstance(states, torch.Tensor) and states.is_floating_point() and states.dim() >= 2 and states.numel() > 0
        and states.device.type != "meta"
    )  # fmt: skip


def find_map(model: Any, places: DraftPlaces) -> tuple[str, Any] | None:
    """The first of the places where there is a map, and the map."""
    import torch

    for place in places.maps:
        value = reach(model, place)
        if isinstance(value, torch.Tensor) and value.dim() == 1 and value.numel() and not value.is_floating_point():
            return place, value
    return None


def map_seen(at: str, holds: str, host: Any, written: bool) -> MapSeen:
    """Figures of a map that has arrived on the host: integers [D]."""
    import torch

    ids = host.long()
    zeros = int((ids == 0).sum())
    if holds == "offsets":
        ids = ids + torch.arange(ids.numel(), device=ids.device)
    repeated = ids.numel() - int(torch.unique(ids).numel())
    return MapSeen(at, holds, ids.numel(), zeros, int(ids.min()), int(ids.max()), repeated, written)


def _parts(place: str, module: Any) -> list[tuple[str, Any]]:
    """A norm, or the norms of a list of them."""
    import torch

    if isinstance(module, torch.nn.ModuleList):
        return [(f"{place}.{i}", part) for i, part in enumerate(module)]
    return [(place, module)] if isinstance(module, torch.nn.Module) else []
