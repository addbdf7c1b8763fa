"""Work grows as its input does. It is counted, not timed; what is done within one call of C is too large to end if it
grew faster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builder.draft import Tensor
from extremes.counted_steps import steps_of
from extremes.edge_drafts import draft_of, written

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.examining import examine
from ckptdoctor.facts import describe
from ckptdoctor.facts.asked import NOTHING_ASKED
from ckptdoctor.facts.tokenizer.chat_templates import written_by
from ckptdoctor.launch.files import read_launch
from ckptdoctor.launch.line import launch_of, parse_launch
from ckptdoctor.launch.words import commands_of, without_documents
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.outlook import with_repairs
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.layers.provenance import NOTHING_SAID

LARGE = 1 << 18


def grows_as_its_input(call: Callable[[int], object], size: int) -> None:
    steps_of(lambda: call(size))  # what is read once is read here
    once, twice = steps_of(lambda: call(size)), steps_of(lambda: call(2 * size))
    assert twice < 2.2 * once, (once, twice)


@pytest.mark.parametrize("name", ["weird_{}.thing.weight", "model.extra.{}.foo_{}.weight", "target_model.x{}.y.weight"])
def test_unknown_names(name: str, tmp_path: Path) -> None:
    def scanned(count: int) -> object:
        draft = draft_of("specforge-eagle3")
        for number in range(count):
            draft.tensors[name.format(number, number)] = Tensor("F32", (1,), bytes(4))
        rules = rulebook()
        found = examine(str(written(draft, tmp_path / str(count))), None, rules)
        return with_repairs(found, None, rules, (), NOTHING_ASKED, NOTHING_SAID)

    grows_as_its_input(scanned, 150)


def test_layer_types(tmp_path: Path) -> None:
    def planned(count: int) -> object:
        draft = draft_of("specforge-eagle3")
        assert draft.config is not None
        draft.config["layer_types"] = ["full_attention"] * count
        facts = describe(open_checkpoint(str(written(draft, tmp_path / str(count)))), None)
        return load_plan(facts, contracts()["sglang"], contracts()["sglang"].newest)

    grows_as_its_input(planned, 20_000)


@pytest.mark.parametrize("depth", [129, 10_000, 2**40, 10**30])
def test_more_layers_than_there_are_in_any_model_are_not_built(depth: int, tmp_path: Path) -> None:
    draft = draft_of("specforge-eagle3")
    assert draft.config is not None
    draft.config |= {"num_hidden_layers": depth, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    found = examine(str(written(draft, tmp_path)), None, rulebook(), chosen_engines(["sglang", "vllm"]))
    for plan in found.plans:
        assert plan.outcome != "served"
        assert len(plan.parameters) < 128
    if depth < 2**20:
        said = f"config.json asks for {depth} layers, and plans are made for 128 at most"
        assert any(said in reason for plan in found.plans for reason in plan.unproven)


SERVE = 'vllm serve some/model --speculative-config \'{"method": "eagle3"}\' '


@pytest.mark.parametrize("part", ["word ", "--option value ", "--speculative_config.x=1 ", "a=$b ", "-e A=1 ", "\\\n "])
def test_words_of_a_launch_line(part: str) -> None:
    grows_as_its_input(lambda count: parse_launch(SERVE + part * count).source.without_nothing(), 400)


@pytest.mark.parametrize(
    "text",
    ["A" * 60_000, "a/" * 30_000, " " * 60_000, "${" * 30_000, "$a" * 30_000, "<" * 60_000, "'' " * 15_000 + " in"],
)
def test_long_pieces_of_a_launch_line(text: str) -> None:
    try:
        launch = parse_launch(SERVE + text)
    except UsageError as error:
        assert str(error) == "a command in it has more than 8192 words"  # noqa: PT017
    else:
        assert launch.engine == "vllm"
        launch.source.without_nothing()


def test_a_command_of_more_words_than_any_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^a command in it has more than 8192 words$"):
        launch_of("vllm serve " + "a " * 300_000, script=True)
    assert len(commands_of("a\n" * 300_000, comments=True)) == 4096


def test_what_variables_become_has_a_limit() -> None:
    [_, command] = commands_of(f"a={'x' * 60_000}\nrun {'$a ' * 8000}", comments=True)
    assert sum(len(word.text) for word in command.words) < 1_200_000
    assert command.words[1].text == "x" * 60_000
    assert not command.words[1].open
    assert command.words[-1].open


def test_variables_of_a_script() -> None:
    grows_as_its_input(lambda count: commands_of("".join(f"a{n}=1\nrun\n" for n in range(count)), comments=True), 600)


def test_documents_of_a_script() -> None:
    grows_as_its_input(lambda count: without_documents("cat <<END\n" * count), 500)


def test_a_large_script(tmp_path: Path) -> None:
    place = tmp_path / "serve.sh"
    place.write_text(SERVE + "\n" + "cat <<E\n" * 60_000 + "${" * 100_000 + "\n", encoding="utf-8")
    assert read_launch(str(place)).engine == "vllm"


@pytest.mark.parametrize(
    "part", ["{#", "{% if ", "{%", "{{", "{", "<|'+role", "<|'+", ".split(", "'' ", "== ", "{%-  "]
)
def test_chat_templates(part: str) -> None:
    texts = {1: "<|end|>", 2: "<", 3: "{", 4: "{%x"}
    assert 1 in written_by(part * (LARGE // len(part)) + "<|end|>", texts, None).ids


def test_texts_of_a_chat_template() -> None:
    texts = {number: "a" * number + "b" for number in range(1, 200)}
    assert written_by("a" * LARGE, texts, None).ids == ()  # too long a search: nothing is said of it
    grows_as_its_input(lambda count: written_by("<|a|>x" * count, {1: "<|a|>"}, None), 500)
