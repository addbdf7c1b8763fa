"""`Observation`: what one look at a draft found, in figures. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["MapSeen", "Observation"]


@dataclass(frozen=True)
class MapSeen:
    """The map from draft ids to target ids, as it stands in the engine.

    `at`: the attribute. `holds`: `absolute` or `offsets`, what the engine takes it for. `count`: draft ids, `zeros`:
    entries that are zero, `lowest`, `highest`: the target ids that come out, `repeated`: target ids that come out more
    than once, `written`: whether the loader wrote it.
    """

    at: str
    holds: str
    count: int
    zeros: int
    lowest: int
    highest: int
    repeated: int
    written: bool = True


@dataclass(frozen=True)
class Observation:
    """One draft at its first real pass.

    `width`: of what arrived at each token, `state`: of one state of the target, `norms`: mean length of each state at
    the first tokens, `fc_takes`: the width that fc.weight takes, `fc_ran`: whether it was called in this pass.
    `norms_before_fc`: norms that ran before it. `embedding` and `head` are `own` or `shared` (another tensor stands
    in the place of the one that was loaded). `unwritten`: parameters that the loader left, name → `never` or `partly`,
    without those that were replaced; None where the load was not watched. `captured`: the target's boundaries by phase.
    """

    model_class: str
    engine: str | None = None
    release: str | None = None
    draft: str | None = None
    target: str | None = None
    phase: str | None = None
    tokens: int = 0
    width: int = 0
    state: int = 0
    dtype: str = ""
    norms: tuple[float, ...] = ()
    fc_takes: int | None = None
    fc_ran: bool = False
    norms_before_fc: tuple[str, ...] = ()
    map: MapSeen | None = None
    embedding: str | None = None
    head: str | None = None
    unwritten: Mapping[str, str] | None = None
    captured: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    captures_none: bool = False
    vocabulary: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def served_by(self) -> str:
        """`sglang 0.5.23`, or empty in a program that is no engine."""
        return f"{self.engine} {self.release}" if self.engine else ""

    @property
    def states(self) -> int | None:
        """How many states of the target fit what arrived, None where none do."""
        return self.width // self.state if self.state and self.width % self.state == 0 else None

    @property
    def states_fc_takes(self) -> int | None:
        """How many states fc takes."""
        if self.fc_takes is None or not self.state or self.fc_takes % self.state:
            return None
        return self.fc_takes // self.state

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {**asdict(self), "states": self.states, "states_fc_takes": self.states_fc_takes}
