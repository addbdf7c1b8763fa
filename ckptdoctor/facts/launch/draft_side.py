"""What the launch line is held against: the few facts of draft and target that an engine's options touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.block.block_draft import BlockDraft
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.kind import Kind
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.facts.quantisation.quantisation import Quantisation
from ckptdoctor.facts.target import Target
from ckptdoctor.launch.engines import EngineLine, holds
from ckptdoctor.launch.line import Launch
from ckptdoctor.unknown import Unknown

__all__ = ["Seen"]

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True)
class Seen:
    """A launch line beside a draft.

    `algorithm` is the kind of draft (rules/algorithms), with a DSpark drafter in the place of MTP heads as `dspark`.
    """

    launch: Launch
    line: EngineLine
    draft: Draft
    target: Target | None
    checkpoint: Checkpoint
    block: BlockDraft | None
    mtp: MtpHeads | None
    quantisation: Quantisation | None

    @property
    def algorithm(self) -> str:
        """The kind of draft."""
        return "dspark" if self.mtp is not None and self.mtp.kind == "dspark" else self.draft.algorithm

    @property
    def known(self) -> bool:
        """Whether the kind of draft is known."""
        return self.kind.known

    @property
    def kind(self) -> Kind:
        """What holds for every draft of this kind."""
        return knowledge().kind_of(self.algorithm)

    @property
    def bundled(self) -> bool:
        """Whether the draft stands in the target's own files."""
        return self.mtp is not None and self.mtp.whole

    @property
    def checkpoint_speculators(self) -> bool:
        """Whether the config is in the speculators format: vLLM can serve such a draft by its own name."""
        return self.checkpoint.config is not None and "speculators_model_type" in self.checkpoint.config.object

    @property
    def block_size(self) -> int | None:
        """The block that the draft was trained with, as its config has it."""
        return self.block.block_size.value if self.block is not None else None

    @property
    def heads(self) -> int | None:
        """How many MTP heads the config declares."""
        return self.mtp.declared if self.mtp is not None else None

    @property
    def depth(self) -> int | None:
        """The target's number of layers."""
        depth = self.draft.aux.depth
        return None if isinstance(depth, Unknown) else depth

    @property
    def dtype(self) -> str | None:
        """The type of most stored values that are no scales: `BF16`, `F16`, …; None for quantised and empty ones."""
        counts: dict[str, int] = {}
        for info in self.checkpoint.tensors.values():
            if len(info.shape) == 2:
                counts[info.dtype] = counts.get(info.dtype, 0) + 1
        most = max(counts, key=lambda name: counts[name], default=None)
        return most if most in _FLOATS else None

    @property
    def quantised(self) -> bool:
        """Whether the draft declares or stores a quantisation of its own."""
        return self.quantisation is not None and bool(self.quantisation.schemes or self.quantisation.packed)

    def is_open(self, *names: str) -> bool:
        """Whether a field holds a variable of the shell, so that nothing is known of it."""
        return any(name in self.launch.open_fields for name in names)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of the engine's file applies to the release of the line, else to the newest."""
        return holds(row, self.launch.release)

    def said(self, name: str) -> tuple[str | None, str | int | None]:
        """How the line writes a field, and what it gives there."""
        value = getattr(self.launch, name)
        return self.launch.source.written(name), value if isinstance(value, (str, int)) else None

    def instead(self, name: str, value: Any) -> tuple[str | None, str | int | None, Mapping[str, Any]]:
        """The same with the change that puts `value` there; None leaves the field out."""
        return (*self.said(name), {name: value})

    def same_place(self, path: str) -> bool | None:
        """Whether a path of the line is the scanned folder; None where that cannot be told."""
        try:
            place = Path(path)
            if not place.exists():
                return None
            return place.resolve() in (self.checkpoint.root.resolve(), Path(self.checkpoint.path).resolve())
        except (OSError, ValueError, RuntimeError):
            return None
