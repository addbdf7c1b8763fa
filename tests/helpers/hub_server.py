"""A server on loopback that speaks those endpoints of the Hub that the real client uses, and keeps what it is sent.

Repositories are commits of whole trees in memory. Files of more than `SMALL` bytes are large ones: uploaded through
git-lfs's batch endpoint, and downloaded by a redirect to another address, as from the Hub's CDN.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from registries.hub_contents import SMALL, TOKEN, Content, Hub, Repository
from registries.hub_handler import Handler, Server

__all__ = ["SMALL", "TOKEN", "Content", "Hub", "Repository", "connected", "hub_running"]


@contextmanager
def hub_running() -> Iterator[Hub]:
    """The server, running in a thread of this process until the end."""
    server = Server(("127.0.0.1", 0), Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The server, with the client in this process set to it as HF_ENDPOINT, HF_TOKEN and HF_HUB_DISABLE_XET would."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("huggingface_hub.utils").disable_progress_bars()
    with hub_running() as hub:
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        try:
            yield hub
        finally:
            huggingface_hub.close_session()
