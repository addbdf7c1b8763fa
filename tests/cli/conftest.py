"""What the tests of the command line share."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ckptdoctor.findings import Confidence, Examination, Finding, Report, Severity


class FakeScan:
    """Stands in for `scan_paths`: remembers its arguments, gives `report` or raises `error`."""

    def __init__(self) -> None:
        self.report = Report(())
        self.error: BaseException | None = None
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self,
        paths: Sequence[str],
        *,
        target: str | None,
        rules: Sequence[Path],
        select: Sequence[str],
        ignore: Sequence[str],
        engines: Sequence[str],
        launch: str | None,
        trained_with: str | None,
        captured_with: str | None,
        token_counts: str | None,
        deep: bool,
        against: str | None,
        policy: Any,
        baseline: Any,
        illustrated: bool,
    ) -> Report:
        self.calls.append(
            {
                "paths": list(paths),
                "target": target,
                "rules": list(rules),
                "select": list(select),
                "ignore": list(ignore),
                "engines": list(engines),
                "launch": launch,
                "trained_with": trained_with,
                "captured_with": captured_with,
                "token_counts": token_counts,
                "deep": deep,
                "against": against,
                "policy": policy,
                "baseline": baseline,
                "illustrated": illustrated,
            }
        )
        if self.error is not None:
            raise self.error
        return self.report


@pytest.fixture
def fake_scan(monkeypatch: pytest.MonkeyPatch) -> FakeScan:
    fake = FakeScan()
    try:
        module = importlib.import_module("ckptdoctor.scanning")
    except ImportError:
        module = types.ModuleType("ckptdoctor.scanning")
        monkeypatch.setitem(sys.modules, "ckptdoctor.scanning", module)
    monkeypatch.setattr(module, "scan_paths", fake, raising=False)
    return fake


@pytest.fixture
def real_scan() -> Any:
    """`ckptdoctor.scanning` itself; skips while it cannot be imported."""
    try:
        return importlib.import_module("ckptdoctor.scanning")
    except ImportError as error:
        pytest.skip(f"ckptdoctor.scanning cannot be imported: {error}")


@pytest.fixture
def runner() -> CliRunner:
    # click keeps the two streams apart since 8.2; before, it had to be told to.
    apart: dict[str, Any] = {}
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        apart["mix_stderr"] = False
    return CliRunner(**apart)


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """`make_report("error", "note")`: one checkpoint with a finding of each of these severities."""

    def make(*severities: str, failed: tuple[tuple[str, str], ...] = (), confidence: str = "certain") -> Report:
        findings = tuple(
            Finding(
                rule="KEY004",
                name="projection-left-random",
                severity=Severity(severity),
                confidence=Confidence(confidence),
                message="a message",
                effect="an effect",
                advice="an advice",
            )
            for severity in severities
        )
        draft = {"algorithm": "eagle3", "dialect": "specforge"}
        return Report((Examination("draft", "EAGLE-3 draft", draft, None, findings, ()),), failed)

    return make
