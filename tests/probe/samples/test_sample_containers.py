"""Containers of samples: compressed ones are the same, and not unpacked without a bound."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
from sample_cases import (  # noqa: E402
    features,
)

from ckptdoctor.probe.samples import containers as sample_containers  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def test_gzipped_features_are_the_same(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    with (tmp_path / "a.ckpt").open("rb") as plain, gzip.open(tmp_path / "b.ckpt.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    one, other = read_samples([str(tmp_path)]).items
    assert torch.equal(one.states, other.states)


def test_gzip_that_unpacks_to_too_much_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    (tmp_path / "b.ckpt.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    monkeypatch.setattr(sample_containers, "UNPACKED_LIMIT", 1 << 20)
    samples = read_samples([str(tmp_path)])
    assert len(samples.items) == 1
    assert "b.ckpt.gz: unpacks to more than 1048576 bytes" in samples.remarks[0]
