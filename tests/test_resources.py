"""Where the rules are found: in a checkout, in a wheel, and what is said when they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.resources import MissingRulesError, rules_dir


def _package(tmp_path: Path) -> Path:
    package = tmp_path / "site" / "ckptdoctor"
    package.mkdir(parents=True)
    return package


def test_the_checkout_has_its_rules_beside_the_package() -> None:
    assert rules_dir() == Path(__file__).parents[1] / "rules"
    assert (rules_dir() / "schema" / "rule.schema.json").is_file()


def test_in_a_checkout_the_rules_are_beside_the_package(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (package.parent / "rules").mkdir()
    assert rules_dir(package) == package.parent / "rules"


def test_in_a_wheel_the_rules_are_in_the_package(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (package / "_rules").mkdir()
    assert rules_dir(package) == package / "_rules"


def test_a_wheel_does_not_take_a_foreign_folder_named_rules(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (package / "_rules").mkdir()
    (package.parent / "rules").mkdir()
    assert rules_dir(package) == package / "_rules"


def test_a_file_is_no_folder_of_rules(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (package / "_rules").write_text("")
    with pytest.raises(MissingRulesError):
        rules_dir(package)


def test_missing_rules_are_told_in_one_sentence(tmp_path: Path) -> None:
    package = _package(tmp_path)
    with pytest.raises(CkptdoctorError) as caught:
        rules_dir(package)
    text = str(caught.value)
    assert str(package / "_rules") in text
    assert str(package.parent / "rules") in text
    assert "\n" not in text
    assert caught.value.exit_code == 3
