"""Torch, when it is there (a missing one skips with its reason, or fails where CI promises it)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType

import pytest
from hub_server import Hub, connected


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """The torch module. Skips without it, and fails instead when CKPTDOCTOR_REQUIRE_TORCH=1."""
    if os.environ.get("CKPTDOCTOR_REQUIRE_TORCH") == "1":
        import torch as module

        return module
    return pytest.importorskip("torch", reason="reading pickles needs the torch extra")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with connected(monkeypatch) as server:
        yield server
