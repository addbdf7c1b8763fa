"""Entries of lists of modules are compared as the engines do, and patterns run only where they end."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.quantisation.patterns import STYLES, names_module, readable

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
        readable(text)


@given(st.from_regex(r"[a-z.*\\d0-9()|]{0,30}", fullmatch=True), st.text(alphabet="ab.3", max_size=30))
def test_a_pattern_that_is_run_means_what_re_means(pattern: str, module: str) -> None:
    if readable(f"re:{pattern}"):
        assert names_module([f"re:{pattern}"], module, "exact") == (re.match(pattern, module) is not None)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(.*)*x", ".*.*.*.*.*x", r"(a*)\1*\1*$", "((a{1,9}){1,9}){1,9}$", "["]
)
def test_a_pattern_that_could_run_for_long_is_not_run(pattern: str) -> None:
    started = time.process_time()
    assert not readable(f"re:{pattern}")
    assert not names_module([f"re:{pattern}"], "a" * 150, "exact")
    assert time.process_time() - started < 5
