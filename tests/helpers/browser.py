"""A real headless Chromium for tests, spoken to over its DevTools pipe: what a page shows, says and asks for."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 120


class Browser:
    """One page of a running browser. `requests` are the addresses it asked for, `said` what stood in the console."""

    def __init__(self, to: BinaryIO, answers: BinaryIO) -> None:
        self._to, self._answers = to, answers
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                found: dict[str, Any] = answer["result"]
                return found

    def _next(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser ended"
            data += byte
        answer: dict[str, Any] = json.loads(data)
        if "method" in answer:
            self.events.append((answer["method"], answer["params"]))
        return answer

    def open(self, page: Path, scheme: str = "light", media: str = "screen") -> None:
        """Open `page` and wait until it and its images are there."""
        self.events.clear()
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=page.as_uri())
        while not any(name == "Page.loadEventFired" for name, _ in self.events):
            self._next()

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives in the page; the page's own policy does not hold for it."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    @property
    def requests(self) -> list[str]:
        self.value("new Promise(done => setTimeout(done, 200))")
        return [p["request"]["url"] for name, p in self.events if name == "Network.requestWillBeSent"]

    @property
    def said(self) -> list[str]:
        self.value("new Promise(done => setTimeout(done, 200))")
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(params) for name, params in self.events if name in names]


@contextmanager
def running(folder: Path) -> Iterator[Browser]:
    """A browser with nothing but `folder` of its own; skips the test where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium here")
    command = [
        "timeout", str(_PATIENCE), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-dev-shm-usage", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads from 3 and writes to 4, which may be numbers of ours.
    high_in, high_out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out))

    def move() -> None:
        os.dup2(high_in, 3)
        os.dup2(high_out, 4)

    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            command, pass_fds=(3, 4), preexec_fn=move, stdin=subprocess.DEVNULL, stdout=log, stderr=log,  # noqa: PLW1509
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    for fd in (theirs_in, theirs_out, high_in, high_out):
        os.close(fd)
    with os.fdopen(ours_out, "wb") as to, os.fdopen(ours_in, "rb") as answers:
        try:
            yield Browser(to, answers)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
