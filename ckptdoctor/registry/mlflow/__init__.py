"""The gate of MLflow: model versions. `check_version` is meant for programs; it is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptdoctor.registry.mlflow.store import check_version

__all__ = ["check_version"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ckptdoctor.registry.mlflow' has no attribute {name!r}")
    from ckptdoctor.registry.mlflow.store import check_version

    return check_version
