"""Angles are those of transformers for every kind of scaling, and of DeepSeek for MLA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

from ckptdoctor.checkpoint import open_checkpoint  # noqa: E402
from ckptdoctor.facts import describe  # noqa: E402
from ckptdoctor.probe.network.rotary import angles, turned  # noqa: E402
from ckptdoctor.probe.network.turning import Turning, turning_of  # noqa: E402

HEAD = 16
POSITIONS = list(range(40))
ORIGINAL = {"original_max_position_embeddings": 16}
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
    "yarn": {"factor": 8.0, **ORIGINAL},
    "yarn betas": {"factor": 8.0, "beta_fast": 8, "beta_slow": 2, "truncate": False, **ORIGINAL},
    "yarn attention": {"factor": 8.0, "attention_factor": 0.5, **ORIGINAL},
    "yarn mscale": {"factor": 8.0, "mscale": 0.7, "mscale_all_dim": 0.3, **ORIGINAL},
    "yarn one mscale": {"factor": 8.0, "mscale": 0.7, "mscale_all_dim": 0, **ORIGINAL},
    "yarn alone": {"factor": 2.0},
    "longrope": {
        "factor": 3.0,
        "short_factor": [1.0 + n for n in range(8)],
        "long_factor": [2.0 + n for n in range(8)],
        **ORIGINAL,
    },
}


def _turning(folder: Path, customs: dict[str, Any] | None = None, mla: bool = False, **fields: Any) -> Turning:
    folder.mkdir()
    config = {"hidden_size": 64, "max_position_embeddings": 32, **fields}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    return turning_of(describe(open_checkpoint(str(folder)), None), HEAD, customs or {}, mla=mla)


def _of_transformers(**parameters: Any) -> tuple[Any, Any]:
    rope = pytest.importorskip("transformers.models.llama.modeling_llama").LlamaRotaryEmbedding
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=64, num_attention_heads=4, head_dim=HEAD, max_position_embeddings=32, rope_parameters=parameters
    )
    cos, sin = rope(config)(torch.zeros(1), torch.tensor([POSITIONS]))
    return cos[0, :, : HEAD // 2], sin[0, :, : HEAD // 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelling", ["new", "old"])
def test_angles_are_those_of_transformers(kind: str, spelling: str, tmp_path: Path) -> None:
    said = {"rope_type": kind.split()[0], **KINDS[kind]}
    if spelling == "new":
        fields: dict[str, Any] = {"rope_parameters": {"rope_theta": 500.0, **said}}
    else:
        fields = {"rope_theta": 500.0, "rope_scaling": said}
    turning = _turning(tmp_path / "draft", **fields)
    assert turning.problem is None
    found = angles(turning, torch.tensor(POSITIONS), turning.base, scaled=True)
    for mine, theirs in zip(found, _of_transformers(rope_theta=500.0, **said), strict=True):
        assert (mine - theirs).abs().max() < 1e-6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "default"])
def test_without_its_scaling_a_draft_turns_plainly(kind: str, tmp_path: Path) -> None:
    said = {"rope_theta": 500.0, "rope_type": kind.split()[0], **KINDS[kind]}
    turning = _turning(tmp_path / "draft", rope_parameters=said)
    plain = Turning(base=500.0, dims=HEAD)
    at = torch.tensor(POSITIONS)
    assert torch.equal(angles(turning, at, 500.0, scaled=False)[0], angles(plain, at, 500.0, scaled=True)[0])
    assert not torch.equal(angles(turning, at, 500.0, scaled=True)[0], angles(plain, at, 500.0, scaled=True)[0])


def test_three_axes_are_one_for_text(tmp_path: Path) -> None:
    turning = _turning(tmp_path / "d", rope_theta=77.0, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]})
    assert (turning.kind, turning.base, turning.scaled) == ("default", 77.0, False)


def test_another_base_takes_the_place_of_the_stated_one(tmp_path: Path) -> None:
    turning = _turning(tmp_path / "draft", rope_theta=500.0)
    at = torch.tensor(POSITIONS)
    assert torch.equal(angles(turning, at, 9.0, scaled=True)[1], angles(Turning(9.0, HEAD), at, 9.0, scaled=True)[1])


def test_part_of_a_head_is_turned(tmp_path: Path) -> None:
    turning = _turning(tmp_path / "draft", rope_theta=500.0, partial_rotary_factor=0.5)
    assert turning.dims == HEAD // 2
    x = torch.randn(len(POSITIONS), 2, HEAD)
    out = turned(x, angles(turning, torch.tensor(POSITIONS), 500.0, scaled=True), interleaved=False)
    assert torch.equal(out[..., HEAD // 2 :], x[..., HEAD // 2 :])
    assert not torch.equal(out[..., : HEAD // 2], x[..., : HEAD // 2])


def test_a_trainer_that_reads_no_part_turns_all(tmp_path: Path) -> None:
    turning = _turning(tmp_path / "draft", {"partial_rotary": "unread"}, rope_theta=5.0, partial_rotary_factor=0.5)
    assert turning.dims == HEAD


@pytest.mark.parametrize("interleaved", [False, True])
def test_only_the_distance_of_two_positions_counts(interleaved: bool) -> None:
    turning = Turning(base=50.0, dims=HEAD)
    query, key = torch.randn(1, 1, HEAD), torch.randn(1, 1, HEAD)

    def score(one: int, other: int) -> Any:
        by = [angles(turning, torch.tensor([p]), 50.0, scaled=True) for p in (one, other)]
        return (turned(query, by[0], interleaved=interleaved) * turned(key, by[1], interleaved=interleaved)).sum()

    assert torch.allclose(score(9, 4), score(25, 20), atol=1e-5)
    assert not torch.allclose(score(9, 4), score(25, 21), atol=1e-3)


def test_ratio_and_scores_of_deepseek(tmp_path: Path) -> None:
    """cos and sin by mscale / mscale_all_dim, the scores by the square of the second (modeling_deepseek.py)."""
    said = {"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0, **ORIGINAL}
    turning = _turning(tmp_path / "draft", mla=True, rope_scaling=said)
    assert turning.attention == pytest.approx(1.0)
    assert turning.scores == pytest.approx((0.1 * 3.6888794541139363 + 1) ** 2)
    assert turning.interleaved


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rope_type": "spiral", "factor": 2.0}, "spiral"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "llama3", "factor": 2.0}, "low_freq_factor"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "longrope"),
        ({"rope_type": "longrope", "factor": 2.0, "short_factor": ["a"] * 8, "long_factor": None}, "longrope"),
    ],
)
def test_a_scaling_that_cannot_be_computed_says_why(said: dict[str, Any], words: str, tmp_path: Path) -> None:
    turning = _turning(tmp_path / "draft", rope_parameters=said)
    assert turning.problem is not None
    assert words in turning.problem


@pytest.mark.parametrize("value", [None, "8", [], -1, 0, True, float("nan"), 1e400, 5e-324])
def test_strange_numbers_never_crash(value: Any, tmp_path: Path) -> None:
    said = {"rope_type": "yarn", "factor": value, "beta_fast": value, "original_max_position_embeddings": value}
    turning = _turning(tmp_path / "draft", rope_parameters={"rope_theta": value, **said})
    angles(turning, torch.tensor(POSITIONS), turning.base, scaled=turning.problem is None)
