"""The recorder: looks once at what really arrives in a draft, inside an engine or any torch program.

`ckptdoctor.recorder.entry` holds the plugins that engines call; they do nothing unless CKPTDOCTOR_RECORD is set.
`record(model)` is the same look for a program of one's own. Importing this package imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Recording", "record"]

if TYPE_CHECKING:
    from ckptdoctor.recorder.anywhere import Recording, record


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ckptdoctor.recorder' has no attribute {name!r}")
    from ckptdoctor.recorder import anywhere

    return getattr(anywhere, name)
