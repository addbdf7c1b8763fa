"""Which release is meant, and what is said of one that nobody has read."""

from __future__ import annotations

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.serving import contracts
from ckptdoctor.serving.contract.contracts import Evidence, Release
from ckptdoctor.serving.contract.releases import choose, remark_on


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("sglang==5.12", "0.5.12"),
        ("sglang==0.512", "0.5.12"),
        ("vllm==33.0", "0.33.0"),
        ("sglang==5.12.post1", "0.5.12.post1"),
    ],
)
def test_a_likely_slip_is_asked_about(asked: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"did you mean {meant}\?"):
        choose(asked)


@pytest.mark.parametrize(
    ("asked", "release"),
    [
        ("vllm==0.33.0", "0.33.0"),
        ("vllm==0.33.0+cu128", "0.33.0"),
        ("vllm==0.33.0+rocm6.3", "0.33.0"),
        ("vllm==0.33", "0.33.0"),
        ("sglang", "0.5.23"),
        ("eagle", "undated"),
    ],
)
def test_a_release_that_was_read_needs_no_remark(asked: str, release: str) -> None:
    contract, found = choose(asked)
    assert found == (contract.newest if asked == "sglang" else release)
    assert remark_on(Release(contract, found)) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("vllm==9.9", "is newer than what was read"),
        ("vllm==99.0", "is newer than what was read"),
        ("sglang==0.5.13.dev3+g1234abc", "was not read"),
        ("sglang==0.5.13rc1", "was not read"),
        ("sglang==0.5.12.post2", "was not read"),
        ("vllm==0.33.0+vendor.4", "is a build with changes of its own"),
    ],
)
def test_the_sentence_on_a_release_that_nobody_has_read(asked: str, said: str) -> None:
    contract, release = choose(asked)
    remark = remark_on(Release(contract, release))
    assert remark is not None
    assert said in remark
    assert "it is judged as" in remark
    assert remark.endswith("nothing said of it is certain.")


@pytest.mark.parametrize("asked", ["sglang==0.3.0", "vllm==0.8.5", "vllm==x", "nothing==1.0"])
def test_what_cannot_be_judged_is_wrong_usage(asked: str) -> None:
    with pytest.raises(UsageError):
        choose(asked)


def test_what_is_borrowed_from_a_predecessor_is_never_executed() -> None:
    contract = contracts()["vllm"]
    for version, read in ((contract.newest, True), ("9.9", False)):
        reader = Release(contract, version).reader()
        reader.note({"from": "0.33.0", "source": "here", "evidence": "executed"})
        assert reader.evidence.executed is read


def test_evidence_of_nothing_is_no_proof() -> None:
    assert not Evidence().executed
    assert not (Evidence() + Evidence()).executed
