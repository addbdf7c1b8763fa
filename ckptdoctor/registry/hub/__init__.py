"""The gate of the Hub: uploads.

`guard`, `guarded`, `guarded_argument` and `RefusedUploadError` are meant for programs; they are
imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptdoctor.registry.hub.judging import RefusedUploadError
    from ckptdoctor.registry.hub.upload import guard, guarded, guarded_argument

__all__ = ["RefusedUploadError", "guard", "guarded", "guarded_argument"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ckptdoctor.registry.hub' has no attribute {name!r}")
    from ckptdoctor.registry.hub import judging, upload

    return getattr(judging if name == "RefusedUploadError" else upload, name)
