"""`record(model)` in a torch program of one's own."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from ckptdoctor.recorder import record  # noqa: E402

H, D, V = 16, 32, 64


class Draft(torch.nn.Module):  # type: ignore[misc]
    """An EAGLE-3 draft in small, as model classes of trainers are."""

    def __init__(self) -> None:
        super().__init__()
        self.config = types.SimpleNamespace(hidden_size=H, vocab_size=V)
        self.embed_tokens = torch.nn.Embedding(V, H)
        self.fc_norm = torch.nn.ModuleList([torch.nn.LayerNorm(H) for _ in range(3)])
        self.fc = torch.nn.Linear(3 * H, H, bias=False)
        self.lm_head = torch.nn.Linear(H, D, bias=False)
        self.register_buffer("d2t", torch.arange(D))

    def forward(self, input_ids: Any, hidden_states: Any) -> Any:
        if hidden_states.shape[-1] != H:
            chunks = hidden_states.chunk(3, dim=-1)
            hidden_states = self.fc(torch.cat([n(c) for n, c in zip(self.fc_norm, chunks, strict=True)], dim=-1))
        return self.lm_head(hidden_states + self.embed_tokens(input_ids))


def left_in(model: Any) -> list[str]:
    return [name for module in model.modules() for name in vars(module) if callable(vars(module)[name])]


def test_a_pass_with_three_states(tmp_path: Path) -> None:
    model, lines = Draft(), []
    ids, states = torch.randint(0, V, (2, 5)), torch.randn(2, 5, 3 * H)
    plain = model(ids, states)
    with record(model, log=lines.append, samples=tmp_path / "s.safetensors") as recording:
        assert recording.line is None
        assert torch.equal(model(ids, states), plain)
    seen = recording.seen
    assert seen is not None
    assert (seen.width, seen.state, seen.states, seen.tokens, seen.fc_ran) == (48, 16, 3, 10, True)
    assert seen.norms_before_fc == ("fc_norm.0", "fc_norm.1", "fc_norm.2")
    expected = states.reshape(-1, 3, H).norm(dim=-1).mean(0)
    assert torch.allclose(torch.tensor(seen.norms), expected)
    assert seen.map is not None
    assert (seen.map.at, seen.map.count, seen.map.highest, seen.map.zeros) == ("d2t", D, 62, 1)
    assert recording.line == lines[1]
    assert lines[1].startswith(
        "ckptdoctor: nothing speaks against what arrives: fc took 3 states of width 16, d2t in use"
    )
    assert left_in(model) == []
    kept = pytest.importorskip("safetensors.torch").load_file(tmp_path / "s.safetensors")
    assert kept["position_ids"].tolist() == [0, 1, 2, 3, 4] * 2
    assert torch.equal(kept["hidden_states"].flatten(1), states.reshape(10, -1))


def test_one_state_goes_past_fc() -> None:
    model, lines = Draft(), []
    with record(model, log=lines.append), torch.inference_mode():
        model(torch.tensor([1, 2, 3]), torch.randn(3, H))
    assert lines[1] == (
        "ckptdoctor: fc did not run: the draft got states of width 16, one layer, where fc.weight takes 48 (3 states); "
        "the draft accepts next to nothing this way"
    )
    assert "fc did not run (takes 48)" in lines[0]


def test_zeros_are_no_real_pass() -> None:
    model, lines = Draft(), []
    with record(model, log=lines.append) as recording:
        for _ in range(3):
            model(torch.tensor([1, 2]), torch.zeros(2, 3 * H))
            recording._session.worker.wait(30)
        assert lines == []
        model(torch.tensor([1, 2]), torch.randn(2, 3 * H))
    assert len(lines) == 2


def test_later_passes_meet_no_hook() -> None:
    model = Draft()
    recording = record(model, log=lambda _line: None)
    assert left_in(model) == ["forward"]
    model(torch.tensor([1, 2]), torch.randn(2, 3 * H))
    recording._session.worker.wait(30)
    assert left_in(model) == []
    recording.stop()
    assert recording.line is not None


def test_an_error_of_the_pass_stays_the_error_of_the_pass() -> None:
    model, lines = Draft(), []
    with record(model, log=lines.append), pytest.raises(RuntimeError):
        model(torch.tensor([1, 2]), torch.randn(2, 2 * H))
    assert "states of width 32" in lines[0]
    assert left_in(model) == []


def test_a_log_that_fails_changes_nothing() -> None:
    model = Draft()

    def log(_line: str) -> None:
        raise OSError("no space left on device")

    ids, states = torch.tensor([1, 2]), torch.randn(2, 3 * H)
    with record(model, log=log):
        assert torch.equal(model(ids, states), Draft.forward(model, ids, states))
    assert left_in(model) == []


@pytest.mark.parametrize(
    ("d2t", "sentence"),
    [
        (
            torch.arange(D) * 2,
            "the map d2t gives target ids up to 93 in a vocabulary of 64: the file holds absol",
        ),
        (torch.arange(D).flip(0), "the map d2t gives 31 target ids more than once"),
    ],
)
def test_a_map_that_is_none(d2t: Any, sentence: str) -> None:
    model, lines = Draft(), []
    model.d2t = d2t
    with record(model, log=lines.append):
        model(torch.tensor([1, 2]), torch.randn(2, 3 * H))
    assert sentence in lines[1]


def test_states_that_are_not_finite() -> None:
    model, lines = Draft(), []
    with record(model, log=lines.append):
        model(torch.tensor([1, 2]), torch.full((2, 3 * H), float("inf")))
    assert "the states that arrive are not finite" in lines[1]


def test_probe_reads_what_is_saved(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    from ckptdoctor.probe.samples.files import read_samples

    model, path = Draft(), tmp_path / "s.safetensors"
    states = torch.randn(2, 5, 3 * H)
    with record(model, log=lambda _line: None, samples=path):
        model(torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]), states)
    samples = read_samples([str(path)])
    assert (samples.form, samples.width, samples.columns) == ("recorded", H, 3)
    assert [item.tokens.tolist()[1:] for item in samples.items] == [[1, 2, 3, 4], [6, 7, 8, 9]]
    assert torch.equal(samples.items[1].states.flatten(1), states[1])
