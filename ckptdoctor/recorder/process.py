"""What a draft that is watched asks of the process it is in: a `Session` has all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ckptdoctor.recorder.patches import Patches
from ckptdoctor.recorder.places import EnginePlaces
from ckptdoctor.recorder.settings import Settings
from ckptdoctor.recorder.target import TargetWatch
from ckptdoctor.recorder.worker import Worker

__all__ = ["Process"]


class Process(Protocol):
    """A process of an engine with the recorder on. `quiet` counts the passes over made-up states that are under way."""

    places: EnginePlaces
    settings: Settings
    patches: Patches
    worker: Worker
    target: TargetWatch | None
    quiet: int

    def number_of(self, draft: object) -> int:
        """Which of the drafts of this process it is, from 1."""

    def tell(self, line: str, bad: bool = False) -> None:
        """One line in the log."""

    def speaks(self) -> bool:
        """Whether this process writes the lines."""

    def guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        """`work(*args)`, or None when it fails or the recorder has stopped."""

    def failed(self, error: Exception) -> None:
        """Says once what went wrong, and stops."""

    def capturing(self) -> bool:
        """Whether CUDA graphs are being recorded."""

    def wait_for_graphs(self) -> None:
        """Waits until the engine records no graph."""

    def stop(self) -> None:
        """Takes every hook away."""
