"""The receipt that lies in a repaired copy: read here with suspicion, since a checkpoint may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.repair.words import said
from ckptdoctor.text import show

__all__ = ["RECEIPT_NAME", "Earlier", "earlier_of"]

RECEIPT_NAME = "ckptdoctor-receipt.json"
"""The name of the receipt in the root of a repaired copy."""


@dataclass(frozen=True)
class Earlier:
    """The treatments that the receipt of a checkpoint records, as (treatment, subject). `damaged` is why the receipt
    cannot be used, None when it can or when there is none."""

    done: frozenset[tuple[str, str]] = frozenset()
    damaged: str | None = None

    def same(self, treatment: str, subject: str) -> str | None:
        """A sentence when this very treatment was made before, None otherwise."""
        if self.damaged is not None:
            return said("receipt_damaged", receipt=RECEIPT_NAME, why=self.damaged)
        if (treatment, subject) in self.done:
            return said("made_before", receipt=RECEIPT_NAME, treatment=show(treatment), subject=show(subject))
        return None


def earlier_of(checkpoint: Checkpoint) -> Earlier:
    """What the receipt beside the weights says was treated. Never raises for any content."""
    # The rest of a receipt, which may be megabytes, is not read here.
    document = checkpoint.json_head(RECEIPT_NAME, frozenset({"treatments"}))
    if document is None:
        return Earlier()
    if not document.readable or not isinstance(document.value, dict):
        return Earlier(damaged="it is no JSON object")
    rows: Any = document.object.get("treatments")
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        return Earlier(damaged="it has no list of treatments")
    return Earlier(frozenset((row["treatment"], row["subject"]) for row in rows))


def _is_row(row: Any) -> bool:
    return isinstance(row, Mapping) and all(isinstance(row.get(key), str) for key in ("treatment", "subject"))
