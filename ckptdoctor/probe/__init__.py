"""Probe: a draft is run on recorded hidden states, under every wiring that fits. Needs the extra `torch`.

Importing this package imports no torch; calling what is in it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.probe.wiring import EMBEDDING, Wiring

if TYPE_CHECKING:
    from ckptdoctor.probe.probing import ProbeResult
    from ckptdoctor.recorder import record

__all__ = ["EMBEDDING", "Wiring", "record", "run_probe"]


def run_probe(
    path: str,
    samples: Sequence[str],
    *,
    target: str | None = None,
    steps: int = 5,
    limit: int | None = 2000,
    generate: int = 64,
    searching: bool = True,
    tell: Callable[[str, int, int], None] | None = None,
) -> ProbeResult:
    """`ckptdoctor.probe.probing.probe`, once torch is known to be here. Raises `CannotExamineError` where it is not."""
    try:
        import torch  # noqa: F401 - asked for here, so that its absence is one sentence
    except ImportError as error:
        raise CannotExamineError(
            "probe runs the draft with PyTorch, which is not here: pip install 'ckptdoctor[torch]'"
        ) from error
    from ckptdoctor.probe.probing import probe

    return probe(
        path, samples, target=target, steps=steps, limit=limit, generate=generate, searching=searching, tell=tell
    )


def __getattr__(name: str) -> Any:
    if name != "record":
        raise AttributeError(f"module 'ckptdoctor.probe' has no attribute {name!r}")
    from ckptdoctor.recorder import record

    return record
