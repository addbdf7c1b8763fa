"""The launch line against the draft: what of it does not go with the draft, or is not taken as it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.block.block_draft import BlockDraft
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.launch.draft_side import Seen
from ckptdoctor.facts.launch.methods import method_deviations
from ckptdoctor.facts.launch.numbers import number_deviations
from ckptdoctor.facts.launch.settings import setting_deviations
from ckptdoctor.facts.launch.strays import stray_deviations
from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.facts.quantisation.quantisation import Quantisation
from ckptdoctor.facts.target import Target
from ckptdoctor.launch.deviations import Deviations
from ckptdoctor.launch.line import Launch

__all__ = ["against_draft"]

# Deviations of which the line can keep its own value: another way to set them right is as good.
_A_CHOICE = frozenset({
    "no_speculation", "another_draft", "dtype_of_less_range", "context_beyond_positions",
    "context_beyond_positions_let_in", "quantisation_inherited", "token_map_cut", "token_map_of_no_use",
})  # fmt: skip


def against_draft(
    launch: Launch | None,
    checkpoint: Checkpoint,
    draft: Draft,
    target: Target | None,
    block: BlockDraft | None = None,
    mtp: MtpHeads | None = None,
    quantisation: Quantisation | None = None,
) -> Launch | None:
    """`launch` with its deviations from this draft. A line whose engine is not known has none. Never raises."""
    if launch is None or launch.source.engine is None:
        return launch
    seen = Seen(launch, launch.source.engine, draft, target, checkpoint, block, mtp, quantisation)
    found = [*method_deviations(seen), *number_deviations(seen), *stray_deviations(seen), *setting_deviations(seen)]
    needed: dict[str, Any] = {}
    for deviation in found:
        if deviation.kind not in _A_CHOICE:
            needed |= deviation.changes
    # The corrected line of each holds the changes of all that leave no choice.
    corrected = launch.source.corrected
    told = (replace(d, corrected=corrected({**needed, **d.changes})) if d.changes else d for d in found)
    return replace(launch, deviations=Deviations.of(told))
