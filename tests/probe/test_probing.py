"""A probe as a whole: what it refuses to judge, and that the entries and ids it proposes do what it says."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
stored: Any = pytest.importorskip("safetensors.torch")

from ckptdoctor.checkpoint import open_checkpoint  # noqa: E402
from ckptdoctor.errors import CannotExamineError  # noqa: E402
from ckptdoctor.facts import describe, read_target  # noqa: E402
from ckptdoctor.probe.network.anatomy_reading import anatomy_of  # noqa: E402
from ckptdoctor.probe.network.chains import own_words  # noqa: E402
from ckptdoctor.probe.probing import ProbeResult, probe_samples  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402
from ckptdoctor.probe.samples.samples import Samples  # noqa: E402
from ckptdoctor.probe.search.serving_as import ids_entry  # noqa: E402
from ckptdoctor.report.probe.as_text import probe_lines  # noqa: E402

PAIR = Path(__file__).parents[2] / "fixtures" / "pair"
TARGET = str(PAIR / "target")


def _samples(files: str, limit: int) -> Samples:
    return read_samples([str(PAIR / "samples" / files)], target=TARGET, limit=limit)


def _probed(draft: Path, samples: Samples, *, searching: bool = True) -> ProbeResult:
    checkpoint = open_checkpoint(str(draft))
    facts = describe(checkpoint, read_target(TARGET))
    return probe_samples(
        checkpoint, facts, anatomy_of(facts), samples, path=str(draft), target=TARGET, steps=2, searching=searching
    )


def _with(samples: Samples, **changes: Any) -> Samples:
    """The samples with each text's tensors changed by functions of them."""
    items = (replace(s, **{name: change(getattr(s, name)) for name, change in changes.items()}) for s in samples.items)
    return replace(samples, items=tuple(items))


def _said(result: ProbeResult) -> str:
    return " ".join("".join(part.text for part in line.segments) for line in probe_lines(result))


def test_states_that_are_all_the_same_are_refused() -> None:
    samples = _samples("specforge", 80)
    for change, what in ((torch.zeros_like, "all zero"), (torch.ones_like, "the same at each token")):
        with pytest.raises(CannotExamineError, match=what):
            _probed(PAIR / "draft", _with(samples, states=change), searching=False)


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    shutil.copytree(PAIR / "draft", draft)
    weights = stored.load_file(draft / "model.safetensors")
    weights["fc.weight"][0, 0] = float("nan")
    stored.save_file(weights, draft / "model.safetensors")
    with pytest.raises(CannotExamineError, match=r"fc\.weight holds values that are not finite"):
        _probed(draft, _samples("specforge", 80), searching=False)


def test_texts_of_another_writer_are_doubted() -> None:
    samples = _samples("specforge", 80)
    share = own_words(samples)
    assert share is not None
    assert share > 0.7
    assert "what the target itself answers" not in _said(_probed(PAIR / "draft", samples, searching=False))
    torch.manual_seed(0)
    other = _with(samples, tokens=lambda tokens: torch.randint(3, 190, tokens.shape))
    assert "what the target itself answers" in _said(_probed(PAIR / "draft", other, searching=False))
    assert own_words(_with(samples, answers=lambda _: None)) is None


def test_too_few_states_for_fc_say_nothing_of_the_training() -> None:
    one = _with(_samples("specforge", 80), states=lambda states: states[:, :1])
    result = _probed(PAIR / "draft", replace(one, boundaries=(None,)))
    assert result.verdict == "chance"
    said = _said(result)
    assert "Whether the draft itself is good does not show" in said
    assert "the training is at fault" not in said


def test_ids_that_are_proposed_serve_the_draft_as_found(tmp_path: Path) -> None:
    """A draft in the format of engines without ids, so that the engines' own layers go astray."""
    draft = tmp_path / "draft"
    draft.mkdir()
    layer = json.loads((PAIR / "draft" / "config.json").read_text(encoding="utf-8"))["transformer_layer_config"]
    config = {key: value for key, value in layer.items() if key != "rope_parameters"} | {
        "architectures": ["LlamaForCausalLMEagle3"], "rope_theta": 500.0, "draft_vocab_size": 96,
        "fc_norm": True, "norm_output": True, "norm_before_residual": True,
    }  # fmt: skip
    weights = stored.load_file(PAIR / "draft" / "model.safetensors")
    named = {name.replace("layers.0.", "midlayer."): weight for name, weight in weights.items()}
    stored.save_file(named, draft / "model.safetensors")
    (draft / "config.json").write_text(json.dumps(config), encoding="utf-8")
    samples = _samples("prompts.jsonl", 240)
    result = _probed(draft, samples)
    assert (result.verdict, result.boundaries) == ("otherwise", (0, 2, 4))
    proposed = [row for row in result.served if row.with_entries and not row.as_it_is]
    assert {row.engine for row in proposed} == {"vllm"}
    for row in proposed:
        assert row.ids is not None
        assert result.facts is not None
        changed = json.loads(json.dumps(config))
        for entry in (*result.entries, *ids_entry(result.facts, row.ids)):
            *outer, last = entry.key.split(".")
            place = changed
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = entry.value
        (draft / "config.json").write_text(json.dumps(changed), encoding="utf-8")
        again = _probed(draft, samples)
        assert (again.verdict, again.boundaries) == ("works", (0, 2, 4))
        assert any(r.engine == row.engine and r.as_it_is and r.captured == (0, 2, 4) for r in again.served)
