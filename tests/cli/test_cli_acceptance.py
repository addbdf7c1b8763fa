"""`ckptdoctor acceptance`: exit codes, both formats, what a number means, and what is told instead."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ckptdoctor.cli.acceptance import acceptance
from ckptdoctor.cli.main import main, run
from ckptdoctor.resources import rules_dir

main.add_command(acceptance)

Capture = pytest.CaptureFixture[str]
LOGS = Path(__file__).parents[1] / "acceptance" / "logs"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((rules_dir() / "schema" / "acceptance.schema.json").read_text(encoding="utf-8"))
)
SGLANG = (
    "python -m sglang.launch_server --model-path target --speculative-algorithm EAGLE3"
    " --speculative-draft-model-path draft --speculative-num-steps 3 --speculative-eagle-topk {topk}"
    " --speculative-num-draft-tokens {tokens}"
)


def text(capsys: Capture, *args: str, code: int = 0) -> str:
    """What the command prints, on one line."""
    assert run(["acceptance", *args]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def data(capsys: Capture, *args: str, code: int = 0) -> dict[str, Any]:
    """The document, held to the schema."""
    assert run(["acceptance", *args, "--format", "json"]) == code
    out, err = capsys.readouterr()
    assert (err, out.isascii()) == ("", True)
    found = json.loads(out)
    SCHEMA.validate(found)
    return dict(found)


def refused(capsys: Capture, *args: str, code: int = 2) -> str:
    """The sentence on stderr."""
    assert run(["acceptance", *args]) == code
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    return err


def test_one_token_a_step_is_no_acceptance_at_all(capsys: Capture) -> None:
    found = text(capsys, "1.0", "--draft-tokens", "5")
    assert "no acceptance" in found
    assert "accept rate 0.20 by SGLang before 0.5.11" in found
    assert "rules KEY017" in found
    assert "ckptdoctor scan DRAFT --target TARGET" in found


def test_a_rate_has_a_reading_for_each_engine_and_the_engine_decides(capsys: Capture) -> None:
    found = data(capsys, "--rate", "0.2", "--draft-tokens", "5")
    assert found["undecided"]
    assert [round(r["length"], 6) for r in found["readings"]] == [1.0, 1.8, 2.0]
    assert found["readings"][0]["band"]["id"] == "nothing"
    assert found["readings"][0]["said_by"] == ["SGLang before 0.5.11"]
    assert "The engine and its release decide" in text(capsys, "--rate", "20%", "--draft-tokens", "5")


@pytest.mark.parametrize(
    ("engine", "length"), [("sglang==0.5.9", 1.0), ("sglang==0.5.23", 1.8), ("vllm", 2.0), ("TensorRT-LLM", 2.0)]
)
def test_with_the_engine_a_rate_has_one_reading(capsys: Capture, engine: str, length: float) -> None:
    found = data(capsys, "--rate", "0.2", "--draft-tokens", "5", "--engine", engine)
    assert [r["length"] for r in found["readings"]] == pytest.approx([length])
    assert not found["undecided"]


def test_a_launch_line_says_how_many_tokens_are_proposed(capsys: Capture) -> None:
    chain = data(capsys, "1.9", "--launch", SGLANG.format(topk=1, tokens=16))["readings"][0]
    # SGLang takes steps + 1 for a chain, whatever the line says.
    assert (chain["draft_tokens"]["proposed"], chain["draft_tokens"]["most"]) == (3, 4)
    assert (
        chain["next"][0]
        == f"ckptdoctor acceptance 1.9 --launch '{SGLANG.format(topk=1, tokens=16)}' --published LENGTH"
    )
    assert "ckptdoctor scan draft --target target --engine sglang --launch" in chain["next"][1]
    tree = data(capsys, "1.9", "--launch", SGLANG.format(topk=4, tokens=16))["readings"][0]
    assert tree["per_token_acceptance"]["low"] < tree["per_token_acceptance"]["high"]
    vllm = data(
        capsys, "1.9", "--launch", 'vllm serve t -sc \'{"method":"eagle3","model":"d","num_speculative_tokens":3}\''
    )
    assert vllm["readings"][0]["draft_tokens"]["proposed"] == 3


def test_a_number_of_sglang_alone_is_taken_for_a_chain_and_says_so(capsys: Capture) -> None:
    assert "Taken for a chain" in text(capsys, "1.9", "--draft-tokens", "5", "--engine", "sglang")
    assert "Taken for a chain" not in text(capsys, "1.9", "--launch", SGLANG.format(topk=1, tokens=4))
    assert "Taken for a chain" not in text(capsys, "1.9", "--draft-tokens", "5", "--engine", "vllm")


def test_a_block_has_no_steps(capsys: Capture) -> None:
    line = (
        "python -m sglang.launch_server --model-path t --speculative-algorithm DFLASH --speculative-num-draft-tokens 16"
    )
    found = data(capsys, "4.5", "--launch", line, "--tokens-per-second", "200", "--baseline", "100")["readings"][0]
    assert found["draft_tokens"]["proposed"] == 15
    assert found["paying"]["draft_token_cost_at_most"] is None


def test_whether_it_pays_and_where_it_breaks_even(capsys: Capture) -> None:
    args = ("1.3", "--draft-tokens", "3", "--tokens-per-second", "85", "--baseline", "109", "--engine", "vllm")
    pays = data(capsys, *args)["readings"][0]["paying"]
    assert pays["pays"] is False
    assert pays["break_even_length"] == pytest.approx(1.3 * 109 / 85)
    assert "It does not pay: 1.30 is below 1.67" in text(capsys, *args)
    assert "It pays: 2.40 is above" in text(capsys, "2.4", *args[1:3], "--tokens-per-second", "170", *args[5:])
    assert "no draft could make it" in text(capsys, "1.5", *args[1:3], "--tokens-per-second", "30", *args[5:])
    assert "cannot be" in text(capsys, "1.1", *args[1:3], "--tokens-per-second", "300", *args[5:])


def test_the_speed_may_come_from_the_log(capsys: Capture) -> None:
    found = text(capsys, "--log", str(LOGS / "sglang-0.5.3.post3.log"), "--baseline", "110")
    assert "165.59 is the median of the log" in found


def test_a_log_shows_its_places_as_bars(capsys: Capture) -> None:
    run(["acceptance", "--log", str(LOGS / "vllm-0.24-dflash.log")])
    out = capsys.readouterr().out
    assert re.search(r"^ {4}1 {6}█{24}·{16} +60\.0 % +60\.0 %$", out, re.MULTILINE)
    assert "and 9 further places, none of them ever accepted" in out
    assert "nothing is accepted from draft token 6 on" in out


def test_a_sign_speaks_for_a_number_that_is_fair_by_itself(capsys: Capture) -> None:
    found = text(capsys, "--log", str(LOGS / "vllm-0.24-dflash.log"))
    assert "usual causes" not in found
    assert found.index("BLK032") < found.index("to run next")


def test_the_published_length(capsys: Capture) -> None:
    found = data(capsys, "2.5", "--draft-tokens", "3", "--published", "2.9")["readings"][0]
    assert [sign["id"] for sign in found["signs"]] == ["below-published"]
    good = text(capsys, "2.88", "--draft-tokens", "3", "--published", "2.9")
    assert "as published" in good
    assert "usual causes" not in good


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("1.9", "--fail-under", "1.9"), 0),
        (("1.89", "--fail-under", "1.9"), 1),
        (("--rate", "0.2", "--draft-tokens", "5", "--fail-under", "1.5"), 1),
        (("--rate", "0.9", "--draft-tokens", "5", "--fail-under", "1.5"), 0),
        (("7", "--draft-tokens", "3", "--fail-under", "1.5"), 1),
    ],
)
def test_exit_code_for_a_least_length(capsys: Capture, args: tuple[str, ...], code: int) -> None:
    assert data(capsys, *args, code=code)["passed"] is (code == 0)
    text(capsys, *args, code=code)


def test_numbers_that_are_no_length_are_told_so(capsys: Capture) -> None:
    high = data(capsys, "58.9", "--draft-tokens", "3")
    assert [r["possible"] for r in high["readings"]] == [False, True]
    assert high["readings"][1]["length"] == pytest.approx(1 + 0.589 * 3)
    low = data(capsys, "0.45", "--draft-tokens", "3")
    assert low["readings"][1]["length"] == pytest.approx(1.45)
    assert "impossible as an accepted length" in text(capsys, "0.45")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give one number"),
        (("1.9", "--rate", "0.2"), "not length and rate together"),
        (("--rate", "0.2"), "--draft-tokens N"),
        (("--rate", "1.8", "--draft-tokens", "3"), "without --rate"),
        (("abc",), "is no number"),
        (("nan",), "is not between"),
        (("1e400",), "is not between"),
        (("1.9", "--draft-tokens", "0"), "draft-tokens"),
        (("1.9", "--engine", "frobnicate"), "is no engine whose numbers are known"),
        (("1.9", "--tokens-per-second", "5"), "--baseline"),
        (("1.9", "--baseline", "5"), "--tokens-per-second"),
        (("--rate", "0.4", "--draft-tokens", "4", "--engine", "vllm==0.7.3"), "no length follows"),
        (("1.9", "--launch", "absent.sh"), "no such file"),
        (("1.9", "--launch", "make coffee"), "no command of a known engine"),
        (("1.9", "--fail-under", "0.5"), "is not between"),
        (("\x1b[31m",), "is no number"),
    ],
)
def test_a_wrong_call_is_one_sentence(capsys: Capture, args: tuple[str, ...], words: str) -> None:
    err = refused(capsys, *args)
    assert words in " ".join(err.split())
    assert "\x1b" not in err


def test_a_log_that_cannot_be_read(capsys: Capture, tmp_path: Path) -> None:
    assert "No such file" in refused(capsys, "--log", str(tmp_path / "absent"), code=3)


def test_foreign_words_do_nothing_to_a_terminal(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred\u202e.log"
    path.write_text(
        "server_args=ServerArgs(model_path='\x1b[2J$(reboot)', speculative_draft_model_path='a;reboot', "
        "speculative_num_steps=3)\naccept len: 1.00, accept rate: 0.25\n",
        encoding="utf-8",
    )
    for fmt in ("text", "json"):
        run(["acceptance", "--log", str(path), "--format", fmt])
        out = capsys.readouterr().out
        assert not {"\x1b", "\u202e"} & set(out)
        assert "--target TARGET" in out
        assert "scan 'a;reboot'" in out


def test_lines_keep_to_the_width(capsys: Capture) -> None:
    for name in sorted(p.name for p in LOGS.iterdir()):
        run(
            [
                "acceptance",
                "--log",
                str(LOGS / name),
                "--draft-tokens",
                "3",
                "--baseline",
                "9",
                "--tokens-per-second",
                "9",
            ]
        )
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > 100 and "ckptdoctor" not in line] == []


def test_colour(capsys: Capture) -> None:
    run(["acceptance", "1.0", "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out


def test_neither_torch_nor_numpy_is_imported() -> None:
    code = (
        "import sys\nfrom ckptdoctor.cli.acceptance import acceptance\n"
        f"acceptance.main(['--log', {str(LOGS / 'vllm-0.26.log')!r}], standalone_mode=False)\n"
        "assert not {'torch', 'numpy', 'transformers', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
