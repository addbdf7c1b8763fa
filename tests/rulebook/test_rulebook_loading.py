"""Loading: shipped rules as they are, the rules of a person with every mistake told in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toyfacts import NAMES, fields, load_user, own_folder, write

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Severity
from ckptdoctor.rulebook import FAMILIES, EffectSource, RuleFileError, load_rules
from ckptdoctor.rulebook.checking import Arguments
from ckptdoctor.rulebook.rules import FixPlan


def problems(tmp_path: Path, *rules: dict[str, Any]) -> list[str]:
    with pytest.raises(RuleFileError) as caught:
        load_user(tmp_path, *rules)
    return list(caught.value.problems)


def text_problem(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    with pytest.raises(RuleFileError) as caught:
        load_rules(own, [path], names=NAMES)
    (problem,) = caught.value.problems
    assert "\n" not in problem
    return problem


def test_shipped_rules_are_loaded_in_the_order_of_their_ids(tmp_path: Path) -> None:
    own = own_folder(tmp_path, fields(id="VOC002", name="b"), fields(id="VOC001", name="a"))
    write(own / "checks" / "art.yaml", fields(id="ART009", name="c"))
    (own / "checks" / "empty.yaml").write_text("")
    book = load_rules(own, names=NAMES, families=FAMILIES)
    assert [rule.id for rule in book] == ["ART009", "VOC001", "VOC002"]
    assert len(book) == len(book.rules) == 3
    assert book.families == ("ART", "VOC")


def test_all_fields_reach_the_rule(tmp_path: Path) -> None:
    full = fields(
        severity="warning",
        scope="checkpoint",
        for_each="draft.layers",
        **{"assert": "it.width"},
        location={"tensor": "{it.name}", "line": "it.line", "offset": 3},
        evidence={"width": "it.width"},
        fix={"treatment": "rename", "with": {"to": "'x'"}, "safety": "safe", "summary": "renames"},
        effect_source=[
            {"kind": "reported", "ref": "org/repo#1", "note": "1.00"},
            {"kind": "executed", "ref": ["sglang==0.5.23", "vllm==0.33.0"]},
        ],
        seen_in=["org/repo#1"],
        why="Because.",
        since="0.1.0",
    )
    rule = load_user(tmp_path, full).get("TST001")
    assert rule.severity is Severity.WARNING
    assert (rule.for_each, rule.when, rule.claim) == ("draft.layers", "True", "it.width")
    assert rule.location == {"tensor": "{it.name}", "line": "it.line", "offset": "3"}
    assert rule.evidence == {"width": "it.width"}
    assert rule.fix == FixPlan("rename", "renames", "safe", {"to": "'x'"})
    assert rule.effect_source == (
        EffectSource("reported", ("org/repo#1",), "1.00"),
        EffectSource("executed", ("sglang==0.5.23", "vllm==0.33.0")),
    )
    assert (rule.seen_in, rule.bad, rule.good) == (("org/repo#1",), ("broken",), ("fine",))
    assert (rule.why, rule.since, rule.family, rule.scope) == ("Because.", "0.1.0", "TST", "checkpoint")
    assert (rule.user, rule.where, rule.source.name) == (True, "mine.yaml, line 1", "mine.yaml")


def test_shipped_rules_belong_to_a_family(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match=r"own\.yaml: rule XYZ001 belongs to no family"):
        load_rules(own_folder(tmp_path, fields(id="XYZ001")), names=NAMES, families=FAMILIES)


def test_shipped_rules_do_not_pay_for_the_checks_of_a_person_s_files(tmp_path: Path) -> None:
    own = own_folder(tmp_path, fields())
    code = (
        "import sys, pathlib\nfrom ckptdoctor.rulebook import load_rules, judge\n"
        f"judge(load_rules(pathlib.Path({str(own)!r}), names={{}}), {{}})\n"
        "print(*{'jsonschema', 'difflib', 'numpy', 'rich'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


def test_a_folder_of_a_person_is_read_whole(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    write(tmp_path / "mine" / "a.yaml", fields(id="AB001", name="a"))
    write(tmp_path / "mine" / "b.yml", fields(id="ABCDEFGH001", name="b"))
    (tmp_path / "mine" / "notes.txt").write_text("not a rule")
    book = load_rules(own, [tmp_path / "mine"], names=NAMES)
    assert [(rule.id, rule.user) for rule in book] == [("AB001", True), ("ABCDEFGH001", True), ("ART001", False)]


def test_a_file_may_start_with_a_byte_order_mark_and_hold_unicode(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    path = write(tmp_path / "mine.yaml", fields(message="größer ✓"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_rules(own, [path], names=NAMES).get("test-rule").message == "größer ✓"


def test_a_missing_folder_and_one_without_rules_are_errors(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        load_rules(own, [tmp_path / "nowhere", tmp_path / "empty"], names=NAMES)
    assert caught.value.exit_code == 2
    assert f"there is no file or folder {tmp_path / 'nowhere'} with rules" in str(caught.value)
    assert f"{tmp_path / 'empty'} holds no rule file (*.yaml or *.yml)" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"severity": "fatal"}, "severity must be one of error, warning and note, not fatal"),
        ({"severity": "eror"}, "severity must be one of error, warning and note, not eror; did you mean error?"),
        ({"scope": "release"}, "scope must be one of checkpoint, serving and everywhere, not release"),
        ({"mesage": "x"}, "unknown field mesage; did you mean message?"),
        (
            {"effect_source": [{"kind": "mesured", "ref": "x"}]},
            "effect_source.0.kind must be one of executed, measured, reported, read and derived, not mesured; "
            "did you mean measured?",
        ),
        ({"effect_source": [{"kind": "read"}]}, "ref is missing in effect_source.0"),
        ({"effect_source": [{"kind": "read", "ref": 3}]}, "effect_source.0.ref must be a text or a list, not 3"),
        ({"effect_source": []}, "effect_source must not be empty"),
        ({"advice": None}, "advice is missing"),
        ({"when": None}, "at least one of when, assert and for_each is needed"),
        ({"name": "Not Kebab"}, "name must be small letters and digits with single hyphens between, not Not Kebab"),
        ({"when": True}, "when must be a text, not true"),
        ({"when": ""}, "when must not be empty"),
        ({"since": 0.1}, "since must be a text, not 0.1"),
        ({"seen_in": "x"}, 'seen_in must be a list, not "x"'),
        ({"seen_in": [1]}, "seen_in.0 must be a text, not 1"),
        ({"location": {"where": "x"}}, "unknown field where in location"),
        ({"location": {"line": None}}, "location.line must be a text or a whole number, not null"),
        ({"fix": {"treatment": "x", "safety": "safe"}}, "summary is missing in fix"),
        (
            {"fix": {"treatment": "x", "safety": "no", "summary": "s"}},
            "fix.safety must be one of safe and unsafe, not no",
        ),
        ({"examples": {"bad": []}}, "good is missing in examples"),
        ({"evidence": {"Bad Name": "1"}}, "evidence must be of the form ^[a-z][a-z0-9_]*$, not Bad Name"),
        ({"when": "1 +\x00"}, None),
    ],
)  # fmt: skip
def test_what_does_not_agree_with_the_schema_is_told_in_words(
    tmp_path: Path, changes: dict[str, Any], sentence: str | None
) -> None:
    found = problems(tmp_path, fields(id="TST000", name="fine"), fields(**changes))
    assert len(found) == 1
    if sentence is not None:
        place, _, rest = found[0].partition(": rule TST001: ")
        assert rest == sentence
        assert place.startswith("mine.yaml, line ")
        assert int(place.rpartition(" ")[2]) > 5


@pytest.mark.parametrize("identifier", ["T001", "tst001", "TST01", "TST0001", "TOOLONGID001", 5, None])
def test_a_wrong_id_is_told_with_its_line(tmp_path: Path, identifier: object) -> None:
    (problem,) = problems(tmp_path, fields(id=identifier))
    assert problem.startswith("mine.yaml, line 1")
    assert "id" in problem


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "mine.yaml holds no rules"),
        ("# nothing\n", "mine.yaml holds no rules"),
        ("[]", "mine.yaml: the file must not be empty"),
        ("{a: 1}", 'mine.yaml: the file must be a list, not {"a": 1}'),
        ("- just text", 'mine.yaml, line 1: a rule must be a mapping, not "just text"'),
        ("- {id: A, id: B}", "mine.yaml: line 1: the key id stands twice in one mapping"),
        ("- a:\n  - b: 1\n    b: 2", "mine.yaml: line 3: the key b stands twice in one mapping"),
        ("- &x {a: 1}\n- *x", "mine.yaml: line 2: aliases (*x) are not allowed in rule files"),
        ("- " * 30 + "a", "mine.yaml: line 1: nested deeper than 20 levels"),
        ("[" * 25 + "]" * 25, "mine.yaml: line 1: nested deeper than 20 levels"),
        ("- a: 2020-99-99", "mine.yaml: month must be in 1..12"),
        (b"\xff\xfe\xff", "mine.yaml is not UTF-8 text (byte 0)"),
        (b"- " + b"x" * 1_000_001, "mine.yaml is larger than 1 MB"),
    ],
)
def test_a_file_that_is_no_list_of_rules_is_told_in_words(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    assert text_problem(tmp_path, text).replace(": is ", " is ") == sentence


@pytest.mark.parametrize(
    "text",
    ["a: [1", "- a\n---\n- b", "- !!python/object/apply:os.system ['true']", "\t- a", "- a: \x07"],
)
def test_what_is_no_safe_yaml_is_told_with_its_line(tmp_path: Path, text: str) -> None:
    problem = text_problem(tmp_path, text)
    assert problem.startswith("mine.yaml: ")
    assert problem.isprintable()


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields())
    (tmp_path / "mine" / "folder.yaml").mkdir(parents=True)
    with pytest.raises(RuleFileError, match=r"folder\.yaml: cannot be read \(it is a folder and not a file\)"):
        load_rules(own, [tmp_path / "mine"], names=NAMES)


def test_a_name_that_is_no_fact_is_found_at_load(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, fields(when="draft.algoritm == 'x'"))
    assert problem == (
        "mine.yaml, line 1: rule TST001, when: draft has no fact algoritm; did you mean algorithm?, "
        "in `draft.algoritm == 'x'`"
    )


def test_names_in_shipped_rules_are_left_to_tests(tmp_path: Path) -> None:
    book = load_rules(own_folder(tmp_path, fields(when="draft.algoritm")), names=NAMES)
    with pytest.raises(RuleFileError, match="did you mean algorithm"):
        book.check(NAMES)


ANY = Arguments(frozenset(), frozenset())


def test_an_unknown_treatment_is_found_at_load(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    fix = {"treatment": "nothing", "safety": "safe", "summary": "s"}
    with pytest.raises(RuleFileError, match="there is no treatment nothing"):
        load_rules(own, [write(tmp_path / "mine.yaml", fields(fix=fix))], names=NAMES, treatments={"rename": ANY})


def test_an_id_or_name_that_is_taken_is_an_error(tmp_path: Path) -> None:
    assert problems(tmp_path, fields(id="ART001", name="mine"), fields(id="TST002", name="shipped-rule")) == [
        "mine.yaml, line 1: the id ART001 is already that of rule ART001 in own.yaml",
        "mine.yaml, line 13: the name shipped-rule is already that of rule ART001 in own.yaml",
    ]


def test_a_family_of_ours_may_be_extended_by_free_ids(tmp_path: Path) -> None:
    assert load_user(tmp_path, fields(id="ART900")).get("ART900").user


def test_all_problems_of_all_files_are_told_together(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    first = write(tmp_path / "first.yaml", fields(severity="bad"), fields(id="TST002", name="b", when="nothing"))
    second = write(tmp_path / "second.yaml", fields(id="TST003", name="shipped-rule"))
    with pytest.raises(RuleFileError) as caught:
        load_rules(own, [first, second, tmp_path / "third"], names=NAMES)
    assert len(caught.value.problems) == 4
    text = str(caught.value)
    assert text.startswith("4 problems in the rule files:")
    assert all(word in text for word in ("first.yaml", "second.yaml", "third"))


def test_a_flood_of_problems_is_cut_and_counted() -> None:
    error = RuleFileError([f"problem {number}" for number in range(50)])
    assert str(error).endswith("problem 19\n  and 30 more")
    assert len(error.problems) == 50
