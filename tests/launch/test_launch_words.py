"""Shell text as commands and words: as `shlex` reads it where that can, and with the place of each word."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.launch.words import commands_of, without_documents


def words(text: str, *, comments: bool = False) -> list[list[str]]:
    return [[word.text for word in command.words] for command in commands_of(text, comments=comments)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", [["a", "b"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a \\\n b \\\r\n c", [["a", "b", "c"]]),
        ("a 2>&1 > out.log b", [["a", "b"]]),
        ("a '' b", [["a", "", "b"]]),
        ('a "x\\"y\\n"', [["a", 'x"y\\n']]),
        ("a=1 b $a ${a} ${c:-d} '$a'", [["a=1", "b", "$a", "${a}", "d", "$a"]]),
        ("a=1\n b $a ${a}", [["a=1"], ["b", "1", "1"]]),
    ],
)
def test_words(text: str, expected: list[list[str]]) -> None:
    assert words(text, comments=True) == expected


def test_comments_count_in_scripts_alone() -> None:
    assert words("a # b\nc", comments=True) == [["a"], ["c"]]
    assert words("a # b\nc") == [["a", "#", "b", "c"]]


def test_variables_for_later_commands_and_for_one_command() -> None:
    commands = commands_of("export A=1; B=2 run; run2", comments=True)
    assert [dict(command.environment) for command in commands] == [{"A": "1"}, {"A": "1", "B": "2"}, {"A": "1"}]


def test_a_variable_that_is_not_known_leaves_the_word_open() -> None:
    (command,) = commands_of("run $A '$B' \"$C\" $ x$")
    assert [word.open for word in command.words] == [False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("word", "text", "is_open"),
    [
        # A is known, N is not.
        ("$A", "one", False),
        ("${A}b", "oneb", False),
        ("'$A'", "$A", False),
        ('"$A"', "one", False),
        ("\\$A", "$A", False),
        ('"\\$A"', "$A", False),
        ("'a'$A", "aone", False),
        ("'a'$N", "a$N", True),
        ("$A'$A'", "one$A", False),
        ("'$A'$A", "$Aone", False),
        ("\\$A$A", "$Aone", False),
        ("--x='$A'", "--x=$A", False),
        ("--x='$N'", "--x=$N", False),
        ('--x="$A"', "--x=one", False),
        ('--x="$N"', "--x=$N", True),
        ("--x=\\$N", "--x=$N", False),
        ("--x=\"$A\"'$B'", "--x=one$B", False),
        ("--x=\"$N\"'$B'", "--x=$N$B", True),
        ("--x='$B'\"$A\"", "--x=$Bone", False),
        ("a'$N'b", "a$Nb", False),
        ("'`id`'", "`id`", False),
        ("--x='$(id)'", "--x=$(id)", False),
        ('--x="$(id)"', "--x=$(id)", True),
        ("--x=\\`", "--x=`", False),
        # A name ends where the quoting changes, and a `$` before it is then an ordinary one.
        ("$A'B'", "oneB", False),
        ('$A"B"', "oneB", False),
        ("$A\\B", "oneB", False),
        ('"$"A', "$A", False),
        ("$'A'", "$A", False),
        ("'$'A", "$A", False),
        ("'${'A}", "${A}", False),
        # A line that goes on goes on within a name, too.
        ("$\\\nA", "one", False),
        # The value of a variable is not read as shell text again.
        ("$Q", "$A", False),
        ("$U", "$N", True),
        ("${A:-x}${N:-x}", "onex", False),
        ('"${N}"', "${N}", True),
    ],
)
def test_what_a_shell_replaces_in_a_word(word: str, text: str, is_open: bool) -> None:
    found = commands_of(f"A=one Q='$A' U=$N; run {word}", comments=True)[1].words[1]
    assert (found.text, found.open) == (text, is_open)


@pytest.mark.parametrize(
    "word",
    [
        "$A",
        "'$A'",
        '"$A"',
        "\\$A",
        "'a'$A",
        "--x=\"$A\"'$B'",
        "--x='$B'$A",
        '"\\$A"',
        "$A'B'",
        '"$"A',
        "'${'A}",
        "$\\\nA",
    ],
)
def test_a_word_is_what_a_shell_makes_of_it(word: str) -> None:
    script = f"A=one; printf %s {word}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert commands_of(script, comments=True)[1].words[2].text == done.stdout


def test_a_command_that_is_to_run_first_leaves_the_word_open() -> None:
    first = commands_of("run --x=$(cat name) y")[0]
    assert [(word.text, word.open) for word in first.words] == [("run", False), ("--x=$", True)]


def test_values_do_not_grow_without_a_bound() -> None:
    (_, command) = commands_of(f"A={'x' * 60_000}; run {'$A' * 20_000}", comments=True)
    assert len(command.words[1].text) == 65_536


def test_here_documents_are_taken_out() -> None:
    script = "cat > a.yaml <<EOF\nx: 1\nEOF\nrun a.yaml\ncat <<- 'END' > b\n\ty\n\tEND\n"
    text, documents = without_documents(script)
    assert documents == {"a.yaml": "x: 1", "b": "\ty"}
    assert words(text, comments=True) == [["cat"], ["run", "a.yaml"], ["cat"]]
    assert len(text.split("\n")) == len(script.split("\n"))


PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\\\n"), max_size=12)


@given(st.lists(PLAIN, min_size=1, max_size=6))
def test_quoted_words_come_back_as_shlex_reads_them(items: list[str]) -> None:
    text = shlex.join(items)
    (command,) = commands_of(text) or [None]
    assert command is not None
    assert [word.text for word in command.words] == shlex.split(text) == items
    assert [text[word.start : word.end] for word in command.words] == [shlex.quote(item) for item in items]
