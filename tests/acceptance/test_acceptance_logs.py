"""Logs to figures: the lines that engines print, what is left out, and hostile files.

`logs/` holds lines as engines print them; README.md says where they come from.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptdoctor.acceptance import LogFigures, Question, acceptance_for, read_log
from ckptdoctor.acceptance.counting import Counting
from ckptdoctor.acceptance.log_reader import LINE_LIMIT
from ckptdoctor.errors import CannotExamineError

LOGS = Path(__file__).parent / "logs"


def log(name: str, given: Counting | None = None) -> LogFigures:
    return read_log(str(LOGS / name), given or Counting())


def written(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "server.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def decode(length: float, running: int = 1, rate: float | None = None) -> str:
    told = "" if rate is None else f", accept rate: {rate:.2f}"
    return (
        f"[2026-01-01 00:00:00 TP0] Decode batch, #running-req: {running}, #token: 9, token usage: 0.00, "
        f"accept len: {length:.2f}{told}, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0\n"
    )


@pytest.mark.parametrize(
    ("name", "length", "engine", "proposed"),
    [
        ("vllm-0.26.log", 1 + (92 + 231) / 74, "vllm", 7),
        ("vllm-0.24-dflash.log", 1 + 89 / 65, "vllm", 15),
        ("vllm-0.8.log", 2.35, "vllm", 3),
        ("vllm-v0.log", 400 / 200, "vllm", 4),
        ("vllm-metrics.txt", 1 + 660 / 400, "vllm", 3),
        ("vllm-bench.txt", 1 + 38611 / 11043, "vllm", 8),
        ("vllm-example.txt", 1 + 48266 / 20468, "vllm", 10),
        ("sglang-0.5.3.post3.log", (1.95 + 1.80 + 2.05 + 1.80 + 1.57) / 5, "sglang", 3),
        ("sglang-0.5.11.log", 1.0, "sglang", 3),
        ("sglang-requests.jsonl", (40 * 2.5 + 10 * 1.5) / 50, "sglang", None),
        ("trtllm-bench.txt", 2.43, "tensorrt-llm", 3),
        ("trtllm-iterations.jsonl", 1 + 11 / 10, "tensorrt-llm", 3),
        ("llama.cpp.log", 1 + 167 / 87, "llama.cpp", 3),
        ("specforge.txt", 1.037, None, None),
    ],
)
def test_every_kind_of_log_gives_its_length(name: str, length: float, engine: str | None, proposed: int | None) -> None:
    answer = acceptance_for(Question(log=str(LOGS / name)))
    assert answer.judgements[0].length == pytest.approx(length, abs=2e-3)
    assert answer.counting.engine == engine
    assert answer.counting.proposed == proposed


def test_places_are_weighed_by_their_drafts() -> None:
    total = log("vllm-0.26.log").total
    assert total.drafts == pytest.approx(74)
    assert total.positions[0] == pytest.approx((37 * 0.757 + 37 * 1.0) / 74)
    assert 1 + sum(total.positions) == pytest.approx(total.length, abs=0.01)


def test_length_and_rate_of_a_log_give_away_the_number_of_draft_tokens() -> None:
    answer = acceptance_for(Question(log=str(LOGS / "sglang-0.5.3.post3.log")))
    assert (answer.rate_formula, answer.tokens_measured, answer.counting.tokens) == ("verified", 4, 4)
    told = acceptance_for(Question(log=str(LOGS / "sglang-0.5.3.post3.log"), draft_tokens=6))
    assert told.rates_disagree


def test_the_server_says_what_it_was_started_with() -> None:
    found = log("sglang-0.5.11.log")
    assert (found.counting.tokens, found.counting.steps, found.counting.topk) == (4, 3, 1)
    assert (found.draft, found.target) == ("nvidia/Kimi-K2.6-Eagle3", "nvidia/Kimi-K2.6-NVFP4")
    assert log("vllm-0.26.log").release == "0.26.0"


def test_the_method_in_the_log_says_that_a_block_is_filled() -> None:
    assert log("vllm-0.24-dflash.log").counting.block
    assert not log("sglang-0.5.11.log").counting.block


def test_the_bonus_token_that_old_releases_leave_out_is_added() -> None:
    total = log("vllm-0.8.log").total
    assert total.bonus_missing
    assert total.length == pytest.approx(2.35)


def test_lines_that_count_tokens_alone_need_the_number_of_draft_tokens() -> None:
    with pytest.raises(CannotExamineError, match="--draft-tokens N"):
        log("vllm-0.8-tokens.log")
    found = log("vllm-0.8-tokens.log", Counting(engine="vllm", tokens=3))
    assert found.total.length == pytest.approx(1 + 165 * 3 / 400)


def test_an_idle_interval_counts_nothing(tmp_path: Path) -> None:
    text = (LOGS / "vllm-0.26.log").read_text(encoding="utf-8")
    idle = "SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens\n"
    assert read_log(written(tmp_path, text + idle), Counting()).total.length == log("vllm-0.26.log").total.length


def test_totals_since_the_start_are_not_added_up(tmp_path: Path) -> None:
    text = (LOGS / "vllm-metrics.txt").read_text(encoding="utf-8")
    assert read_log(written(tmp_path, text * 3), Counting()).total.drafts == 400


def test_several_summaries_are_averaged_by_their_drafts(tmp_path: Path) -> None:
    bench = "Acceptance length: {}\nDrafts: {}\nDraft tokens: {}\nAccepted tokens: {}\n"
    path = written(tmp_path, bench.format("2.00", 100, 300, 100) + bench.format("3.00", 300, 900, 600))
    assert read_log(path, Counting()).total.length == pytest.approx(1 + 700 / 400)


def test_decode_batches_are_weighed_by_running_requests(tmp_path: Path) -> None:
    path = written(tmp_path, decode(9.0) + decode(1.0, 30) + decode(2.0, 10) * 4)
    found = read_log(path, Counting()).total
    assert found.dropped_first
    assert found.length == pytest.approx((30 * 1 + 40 * 2) / 70)
    assert found.running == (10, 30)


def test_of_few_lines_the_first_is_kept(tmp_path: Path) -> None:
    found = read_log(written(tmp_path, decode(3.0) + decode(1.0)), Counting()).total
    assert (found.length, found.dropped_first) == (2.0, False)


def test_what_was_printed_before_the_server_was_ready_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, decode(9.0) * 3 + "The server is fired up and ready to roll!\n" + decode(2.0))
    found = read_log(path, Counting())
    assert (found.total.length, found.warm_up) == (2.0, 3)


def test_only_the_last_start_with_figures_counts(tmp_path: Path) -> None:
    start = "server_args=ServerArgs(model_path='t', speculative_num_steps={}, speculative_num_draft_tokens={})\n"
    text = start.format(3, 4) + decode(2.0) + start.format(5, 6) + decode(1.0)
    found = read_log(written(tmp_path, text), Counting())
    assert (found.total.length, found.counting.tokens, found.starts) == (1.0, 6, 1)
    found = read_log(written(tmp_path, text + start.format(7, 8)), Counting())
    assert (found.total.length, found.counting.tokens, found.starts) == (1.0, 6, 1)


def test_other_kinds_in_the_log_are_named(tmp_path: Path) -> None:
    found = read_log(written(tmp_path, decode(2.0) + "Accept length:          2.10\n"), Counting())
    assert [(other.length, other.lines) for other in found.others] == [(2.1, 1)]


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_codings_line_ends_and_colours(tmp_path: Path, coding: str) -> None:
    text = decode(2.0).replace("accept len", "\x1b[32maccept len").replace("\n", "\r\n")
    assert read_log(written(tmp_path, text.encode(coding)), Counting()).total.length == 2.0


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(decode(2.0).encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read_log("-", Counting()).name == "standard input"
    assert not stdin.closed


def test_a_line_without_end_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "accept len: " * LINE_LIMIT + "\n" + decode(2.0))
    found = read_log(path, Counting())
    assert (found.total.length, found.cut, found.total.lines) == (2.0, 1, 1)


def test_more_positions_series_and_names_than_are_kept(tmp_path: Path) -> None:
    many = ", ".join(["0.001"] * 2000)
    lines = f"SpecDecoding metrics: Mean acceptance length: 2.00, Per-position acceptance rate: {many}\n"
    lines += "".join(f'vllm:spec_decode_num_drafts_total{{engine="{i}"}} 1\n' for i in range(6000))
    assert len(read_log(written(tmp_path, lines), Counting()).total.positions) <= 256


@pytest.mark.parametrize(
    "text", ["", "nothing of the kind\n", "\x00\xff\n", "accept len: \n", "Mean acceptance length: nan"]
)
def test_a_log_without_figures_is_told_in_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(CannotExamineError, match=r"server\.log: no line with an acceptance"):
        read_log(written(tmp_path, text), Counting())


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CannotExamineError, match="folder"):
        read_log(str(tmp_path), Counting())
    with pytest.raises(CannotExamineError, match="No such file"):
        read_log(str(tmp_path / "absent"), Counting())
    with pytest.raises(CannotExamineError):
        read_log("a\0b", Counting())


PIECES = [
    "SpecDecoding metrics: ",
    "Mean acceptance length: ",
    "Accepted: ",
    " tokens, ",
    "Drafted: ",
    "1.00",
    "0",
    "9" * 30,
    "Per-position acceptance rate: ",
    "accept len: ",
    ", accept rate: ",
    "0.00",
    "#running-req: ",
    "\n",
    "nan",
    "-1",
    "1e9",
    "draft acceptance = 0.0 (    0 accepted /     0 generated)",
    "#gen drafts = 0",
    "#acc tokens = 5",
    "specDecodingStats",
    '"numAcceptedTokens": ',
    '"numRequestsWithDraftTokens": ',
    "Speculative metrics: ",
    "Number of draft tokens: ",
    "Number of emitted tokens: ",
    "Number of speculative tokens: ",
    "vllm:spec_decode_num_drafts{} ",
    "num_drafts: ",
    "acceptance at token 0: ",
    "[AL] AVERAGE: ",
    "server_args=",
    "speculative_num_draft_tokens=",
    "speculative_num_steps=0",
    "ready to roll",
    "  Position 999999: ",
    "mean acceptance length: ",
    "\x1b[",
    "\u202e",
    ", ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_gives_an_answer_or_a_sentence(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    try:
        answer = acceptance_for(Question(log=path, baseline=None, published=2.0))
    except CannotExamineError as error:
        told = str(error)
    else:
        told = ""
        low, high = answer.judgements[0].acceptance
        assert 0 <= low <= 1
        assert high is None or 0 <= high <= 1
    assert told.isprintable()
