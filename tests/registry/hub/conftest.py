"""A Hub on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hub_server import Hub, connected


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with connected(monkeypatch) as server:
        yield server
