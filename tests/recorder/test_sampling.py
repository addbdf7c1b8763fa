"""The file of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckptdoctor.recorder.sampling import SampleFile, side_by_side, whole_texts


@pytest.mark.parametrize(
    ("positions", "texts"),
    [
        ([0, 1, 2], [(0, 3)]),
        ([0, 1, 0, 1, 2], [(0, 2), (2, 5)]),
        ([7, 8, 0, 1], [(2, 4)]),  # the rest of a long prompt, then a new one
        ([0, 1, 5, 6], [(0, 2)]),
        ([0, 0, 0], [(0, 1), (1, 2), (2, 3)]),
        ([4, 5], []),
        ([], []),
    ],
)
def test_whole_texts(positions: list[int], texts: list[tuple[int, int]]) -> None:
    assert whole_texts(positions) == texts


@pytest.mark.torch
def test_the_file_grows_and_stops(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    file = SampleFile(tmp_path / "samples.safetensors", 10)
    file.describe("vllm", "0.33.0", (2, 4, 5), "extend")
    ids, positions = torch.arange(4, dtype=torch.int32), torch.arange(4)
    states = torch.arange(4 * 6, dtype=torch.bfloat16).reshape(4, 6)
    sizes = []
    for _ in range(3):
        full = file.add(ids, positions, states, 2)
        sizes.append(safetensors.load_file(file.path)["next_token_ids"].shape[0])
    assert sizes == [4, 8, 10]
    assert full
    kept = safetensors.load_file(file.path)
    assert {n: (t.dtype, tuple(t.shape)) for n, t in kept.items()} == {
        "next_token_ids": (torch.int64, (10,)),
        "position_ids": (torch.int64, (10,)),
        "hidden_states": (torch.bfloat16, (10, 3, 2)),
    }
    assert torch.equal(kept["hidden_states"][:4].flatten(1), states)
    assert [p.name for p in tmp_path.iterdir()] == ["samples.safetensors"]


@pytest.mark.torch
def test_tokens_beside_their_states() -> None:
    torch = pytest.importorskip("torch")
    ids, positions = torch.arange(8), torch.arange(8)
    found = side_by_side(ids, positions, 5)  # an engine pads
    assert found is not None
    assert found[0].tolist() == found[1].tolist() == [0, 1, 2, 3, 4]
    rows = side_by_side(ids.reshape(2, 4), None, 8)
    assert rows is not None
    assert rows[1].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert side_by_side(ids, torch.zeros(3, 8), 5) is None  # positions of pictures
    assert side_by_side(ids[:3], positions, 5) is None
    assert side_by_side(None, positions, 5) is None
