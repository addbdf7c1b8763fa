"""Samples made on the spot: what hooks see is what transformers computes; what is said of targets that cannot run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers", reason="running a target needs transformers")

from sample_cases import features  # noqa: E402

from ckptdoctor.errors import CannotExamineError, UsageError  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402

WORDS = ["<s>", "</s>", "<unk>", "<user>", "<assistant>", *(f"w{i}" for i in range(35))]
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
LAYERS = 3
SIZES = {
    "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "vocab_size": len(WORDS), "max_position_embeddings": 256,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip


def _save_target(folder: Path, kind: str = "Llama", **changes: Any) -> None:
    torch.manual_seed(3)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, "initializer_range": 0.3, **changes})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).bfloat16()
    model.save_pretrained(folder)


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    fast.save_pretrained(folder)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target") / "llama"
    _save_target(folder)
    _save_tokenizer(folder)
    return folder


def _loaded(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()


def _prompts(tmp_path: Path, *rows: Any) -> list[str]:
    place = tmp_path / "prompts.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return [str(place)]


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma2", "Mixtral"])
def test_states_are_those_of_every_boundary(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "target"
    more = {"num_local_experts": LAYERS} if kind == "Mixtral" else {}
    _save_target(folder, kind, **more)
    ids = [3, *range(5, 30)]
    samples = read_samples(_prompts(tmp_path, {"input_ids": ids}), target=str(folder), generate=0)
    (item,) = samples.items
    assert samples.form == "target"
    assert samples.boundaries == tuple(range(LAYERS + 1))
    model = _loaded(folder)
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
        body = model.base_model
        final = body.norm(item.states[:, LAYERS])
    for boundary in range(LAYERS):
        assert torch.allclose(item.states[:, boundary], out.hidden_states[boundary][0], atol=1e-5)
    # Boundary L is before the final norm; what transformers gives out last is after it.
    assert not torch.allclose(item.states[:, LAYERS], out.hidden_states[LAYERS][0], atol=1e-2)
    assert torch.allclose(final, out.hidden_states[LAYERS][0], atol=1e-4)
    assert torch.equal(item.answers, out.logits[0].argmax(-1))
    assert torch.equal(samples.embedding, model.get_input_embeddings().weight)
    assert not item.states.is_inference()
    assert not samples.embedding.requires_grad


def test_prompts_are_continued_greedily(tmp_path: Path, target: Path) -> None:
    settings = json.loads((target / "generation_config.json").read_text())
    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    # Habits of the folder that are no greedy decoding.
    settings |= {"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0, "suppress_tokens": [7, 8, 9]}
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    samples = read_samples(_prompts(tmp_path, "w1 w2 w3", "w20 w4"), target=str(folder), generate=12)
    first, second = samples.items
    assert first.tokens[:3].tolist() == [6, 7, 8]
    assert first.counted.tolist()[:3] == [False] * 3
    for item, given in ((first, 3), (second, 2)):
        written = len(item.tokens) - given
        assert written == 12 or item.tokens[-1] == 1
        assert item.counted.tolist() == [False] * given + [True] * written
        # What was written is what the target answers.
        assert torch.equal(item.answers[given - 1 : -1], item.tokens[given:])
    assert samples.remarks == ()


def test_conversations_go_through_the_template(tmp_path: Path, target: Path) -> None:
    chat = {"conversations": [{"from": "human", "value": "w1 w2"}, {"from": "gpt", "value": "w3 w4 w5"}]}
    paths = _prompts(tmp_path, chat)
    (whole,) = read_samples(paths, target=str(target), generate=0).items
    assert whole.tokens.tolist() == [3, 6, 7, 4, 8, 9, 10]
    # The last answer is what counts.
    assert whole.counted.tolist() == [False] * 4 + [True] * 3
    (answered,) = read_samples(paths, target=str(target), generate=5).items
    # The target answers by itself: the answer of the file is taken off.
    assert answered.tokens[:4].tolist() == [3, 6, 7, 4]
    assert answered.counted.tolist()[:5] == [False] * 4 + [True]


def test_texts_as_they_are(tmp_path: Path, target: Path) -> None:
    ids = {"input_ids": list(range(5, 15)), "loss_mask": [0] * 4 + [1] * 6}
    samples = read_samples(_prompts(tmp_path, "w1 w2 w3 w4", ids), target=str(target), generate=0)
    plain, masked = samples.items
    assert plain.counted.tolist() == [False, True, True, True]
    assert masked.counted.tolist() == [False] * 4 + [True] * 6
    assert samples.remarks == (
        "1 text taken whole: every token but the first counts, though the target did not write it",
    )


def test_the_limit_is_on_counted_tokens(tmp_path: Path, target: Path) -> None:
    told: list[tuple[str, int, int]] = []
    rows = [{"input_ids": [3, i, i + 1, 4]} for i in range(5, 25)]
    samples = read_samples(
        _prompts(tmp_path, *rows), target=str(target), generate=8, limit=20, tell=lambda *args: told.append(args)
    )
    assert samples.counted == 20
    assert told[-1] == ("running the target", 20, 20)
    assert any("of 20 texts, which was enough for the limit" in remark for remark in samples.remarks)


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    _save_target(folder)
    assert read_samples(_prompts(tmp_path, [5, 6, 7]), target=str(folder), generate=4).items
    with pytest.raises(CannotExamineError, match="its tokenizer cannot be loaded"):
        read_samples(_prompts(tmp_path, "w1 w2"), target=str(folder), generate=4)


def test_rows_that_do_not_fit_are_left_out(tmp_path: Path, target: Path) -> None:
    rows = [[5, 6, 7], [5, 400, 7], {"id": 3}, [5, 6], {"messages": [{"role": "assistant", "content": "w1"}]}]
    samples = read_samples(_prompts(tmp_path, *rows), target=str(target), generate=0)
    assert len(samples.items) == 1
    (remark,) = (remark for remark in samples.remarks if remark.startswith("left out 4 texts"))
    assert "line 2: holds token 400; the target has 40 tokens" in remark
    with pytest.raises(CannotExamineError, match=r"no text can be used; .*prompts\.jsonl: holds token 400"):
        read_samples(_prompts(tmp_path, [5, 400, 7]), target=str(target), generate=0)


def test_a_template_that_refuses_is_a_reason(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        place = folder / name
        if place.exists():
            place.write_text(place.read_text().replace("{% for m", "{{ raise_exception('no') }}{% for m"))
    chat = {"messages": [{"role": "user", "content": "w1"}]}
    with pytest.raises(CannotExamineError, match="the tokenizer refuses it"):
        read_samples(_prompts(tmp_path, chat), target=str(folder), generate=4)


def test_a_template_runs_in_a_sandbox(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    evil = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    (folder / "chat_template.jinja").write_text(evil, encoding="utf-8")
    chat = {"messages": [{"role": "user", "content": "w1"}]}
    with pytest.raises(CannotExamineError, match="the tokenizer refuses it"):
        read_samples(_prompts(tmp_path, chat), target=str(folder), generate=4)


def test_text_needs_a_target_with_weights(tmp_path: Path, target: Path) -> None:
    paths = _prompts(tmp_path, "w1 w2")
    with pytest.raises(CannotExamineError, match="holds text: name the folder of the target with its weights"):
        read_samples(paths, target=None)
    folder = tmp_path / "config"
    folder.mkdir()
    shutil.copy(target / "config.json", folder)
    with pytest.raises(CannotExamineError, match="its safetensors weights have to be in this folder"):
        read_samples(paths, target=str(folder))
    with pytest.raises(UsageError, match="-1 tokens cannot be generated"):
        read_samples(paths, target=str(target), generate=-1)


def test_weights_that_are_not_whole_are_refused(tmp_path: Path, target: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CannotExamineError, match=r"model\.layers\.1\.mlp\.up_proj\.weight cannot be found"):
        read_samples(_prompts(tmp_path, [5, 6, 7]), target=str(folder))


def _change_config(folder: Path, **changes: Any) -> None:
    place = folder / "config.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "is quantised"),
        ({"model_type": "nobody_knows"}, "transformers cannot load it"),
        ({"num_hidden_layers": 0}, "|".join(["cannot load it", "no decoder layers", "missing"])),
        ({"hidden_size": 23}, "transformers cannot load it"),
    ],
)
def test_targets_that_cannot_be_run(tmp_path: Path, target: Path, changes: dict[str, Any], said: str) -> None:
    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    _change_config(folder, **changes)
    with pytest.raises(CannotExamineError, match=said) as error:
        read_samples(_prompts(tmp_path, [5, 6, 7]), target=str(folder))
    assert "\n" not in str(error.value)


def test_code_of_the_folder_is_not_run(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "target"
    shutil.copytree(target, folder)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: ...\n", encoding="utf-8")
    _change_config(folder, auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.C"}, model_type="evil")
    with pytest.raises(CannotExamineError, match="transformers cannot load it"):
        read_samples(_prompts(tmp_path, [5, 6, 7]), target=str(folder))
    assert not (tmp_path / "ran").exists()


def test_without_transformers(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(CannotExamineError, match=r"needs transformers: pip install 'ckptdoctor\[transformers\]'"):
        read_samples(_prompts(tmp_path, [5, 6, 7]), target=str(target))
    # Recorded states do without it.
    torch.save(features(20), tmp_path / "a.ckpt")
    assert read_samples([str(tmp_path / "a.ckpt")]).items


def test_transformers_is_as_talkative_as_before(
    tmp_path: Path, target: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = transformers.utils.logging
    before = (log.get_verbosity(), log.is_progress_bar_enabled())
    capfd.readouterr()
    read_samples(_prompts(tmp_path, "w1 w2 w3"), target=str(target), generate=4)
    assert capfd.readouterr() == ("", "")
    assert (log.get_verbosity(), log.is_progress_bar_enabled()) == before
