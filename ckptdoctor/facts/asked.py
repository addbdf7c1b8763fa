"""`Asked`: what a person gave beside the draft and its target."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.launch.line import Launch
from ckptdoctor.tokencounts.token_counts import TokenCounts

__all__ = ["NOTHING_ASKED", "Asked"]


@dataclass(frozen=True)
class Asked:
    """What facts may use beside the files of the draft and of the target.

    `launch` is the command that starts the server, `counts` how often tokens occur in real text, `against` another copy
    of the draft to compare with. With `deep` values of weights are read; with `heads` rows of the two heads alone;
    without either headers and small tensors alone.
    """

    launch: Launch | None = None
    counts: TokenCounts | None = None
    deep: bool = False
    heads: bool = False
    against: Checkpoint | None = None


NOTHING_ASKED = Asked()
