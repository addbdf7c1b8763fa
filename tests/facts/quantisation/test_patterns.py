"""Entries of lists of modules are compared as the engines do, and patterns run only where they end."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from budget_runs import run_bounded
from hypothesis import given
from hypothesis import strategies as st
from treatment_cases import draft_of, write

from ckptdoctor.facts.quantisation.patterns import STYLES, Named, TooMuchError, names_module, readable
from ckptdoctor.limits import PATTERNS

NAME = "model.layers.3.self_attn.q_proj"


@pytest.mark.parametrize(
    ("style", "entry", "named"),
    [
        ("exact", NAME, True),
        ("exact", "q_proj", False),
        ("exact", "re:.*q_proj", True),
        ("exact", "re:q_proj", False),
        ("suffix", "self_attn.q_proj", True),
        ("suffix", "attn.q_proj", False),
        ("path", "layers.3", True),
        ("path", "layers", True),
        ("path", "layer", False),
        ("substring", "attn.q", True),
        ("substring", "model.layers.3.*", True),
        ("substring", "model.layers.4*", False),
        ("glob", "*q_proj", True),
        ("glob", "q_pro", False),
        ("negative", r"-:^model\.layers\.3\..*", True),
        ("negative", r"+:^model\.layers\.3\..*", False),
        ("bits16", "q_proj", True),
        ("bits16", r".*layers\.3\..*", True),
        ("bits16", "layers.3", False),
    ],
)
def test_entries_are_compared_as_the_engines_do(style: str, entry: str, named: bool) -> None:
    assert names_module([entry], NAME, style) is named


@given(st.text(max_size=60), st.text(alphabet="abc.0_", max_size=60), st.sampled_from(sorted(STYLES)))
def test_no_entry_raises(entry: str, module: str, style: str) -> None:
    for text in (entry, f"re:{entry}", f"-:{entry}"):
        names_module([text], module, style)
        readable([text])


@given(st.from_regex(r"[a-z.*\\d0-9()|]{0,30}", fullmatch=True), st.text(alphabet="ab.3", max_size=30))
def test_a_pattern_that_is_run_means_what_re_means(pattern: str, module: str) -> None:
    if readable([f"re:{pattern}"]):
        assert names_module([f"re:{pattern}"], module, "exact") == (re.match(pattern, module) is not None)


@pytest.mark.parametrize(
    "pattern", [r"(a*)\1*\1*$", r"(?!b)a", r"(?<=a)b", "((a{1,9}){1,9}){1,999}$", "[", "a" * 301, "ä"]
)
def test_a_pattern_that_the_engine_does_not_have_is_not_run(pattern: str) -> None:
    assert not readable([f"re:{pattern}"])
    assert not names_module([f"re:{pattern}"], "a" * 150, "exact")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", "(.*)*x", ".*.*.*.*.*x", ".?" * 60 + "x", "((a{1,9}){1,9}){1,9}$", "(a?){60}a{60}!"],
)
def test_a_pattern_that_goes_back_elsewhere_ends(pattern: str) -> None:
    assert readable([f"re:{pattern}"])
    assert names_module([f"re:{pattern}"], "a" * 40, "exact") == pattern.endswith("$")
    assert not names_module([f"re:{pattern}"], "b" * 3 + "a" * 150 + "c", "exact") or pattern.endswith(")*$")


@given(st.text(alphabet="ab.*?[]!-", max_size=12), st.text(alphabet="ab.-!", max_size=8))
def test_shell_patterns_mean_what_fnmatch_means(entry: str, text: str) -> None:
    if any(sign in entry for sign in "*?["):
        assert names_module([entry], text, "substring") == fnmatchcase(text, entry)


def test_a_list_of_too_many_patterns_is_not_read() -> None:
    assert readable([f"re:.*{n}$" for n in range(PATTERNS)])
    assert not readable([f"re:.*{n}$" for n in range(PATTERNS + 1)])
    assert readable([f"model.layers.{n}" for n in range(20_000)])


def test_a_list_has_a_budget_over_all_names() -> None:
    named = Named([f"re:.*(x{n}.?){{20}}y" for n in range(PATTERNS // 4)], "exact")
    with pytest.raises(TooMuchError):
        any(named.names(f"{number}" * 20) for number in range(10**6))


def config_of(names: list[str], groups: int) -> dict[str, object]:
    rows = {f"g{n}": {"weights": {"num_bits": 4}, "targets": names[:50]} for n in range(groups)}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": rows, "ignore": names}


@pytest.mark.parametrize(
    ("method", "names", "groups"),
    [
        ("compressed-tensors", [f"re:model.*{n}.?" + ".?" * 60 for n in range(50)], 2_000),
        ("compressed-tensors", [f"re:.*layers.{n}.*(a|b)+.*$" for n in range(20_000)], 1),
        ("compressed-tensors", [f"re:.*{n}(x{{1,9}}){{1,9}}" for n in range(900)], 1),
        ("modelopt", [f"model.layers.{n}.*x" for n in range(20_000)], 1),
        ("modelopt", [f"*.{n}*.*x" for n in range(900)], 1),
        ("auto-round", [f".*layers.{n}.*(a|b)+.*$" for n in range(20_000)], 0),
        ("awq", [f"model.layers.{n}.mlp" for n in range(20_000)], 0),
        ("fp8", [f"model.layers.{n}.mlp" for n in range(20_000)], 0),
    ],
)
def test_lists_of_a_stranger_end(method: str, names: list[str], groups: int, tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle3")
    exempt = {n: {"bits": 16} for n in names}
    lists = {"modules_to_not_convert": names, "exclude_modules": names, "extra_config": exempt, "ignored_layers": names}
    quantised = {**config_of(names, groups), **lists, "quant_method": method, "bits": 4}
    draft.config = {**(draft.config or {}), "quantization_config": quantised}
    run = run_bounded("scan", write(draft, tmp_path / "draft"), "--format", "json")
    assert run.code in (0, 1), run.err
