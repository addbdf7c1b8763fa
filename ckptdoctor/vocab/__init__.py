"""Draft vocabularies: what one holds, on a page (`page`), and a new one from token counts (`building`).

    >>> from ckptdoctor.vocab import build
    >>> build("token_freq.pt", 32000, "my-target", "new-map").share

`build` and `build_map` are the public API of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["build", "build_map"]

if TYPE_CHECKING:
    from ckptdoctor.vocab.building import build_map
    from ckptdoctor.vocab.writing import build

_HOMES = {"build": "ckptdoctor.vocab.writing", "build_map": "ckptdoctor.vocab.building"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ckptdoctor.vocab' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
