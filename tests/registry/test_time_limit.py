"""A gate refuses what takes longer than it may."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from treatment_cases import draft_of, write

from ckptdoctor.errors import UsageError
from ckptdoctor.policy import NO_POLICY
from ckptdoctor.registry import gate, judge_tree
from ckptdoctor.registry.time_limit import VARIABLE, TimeIsUpError, check_time, gate_seconds, time_limit


def test_a_loop_without_end_is_ended() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeIsUpError), time_limit(0.2):
        all(iter(lambda: True, None))
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_in_another_thread_it_is_asked() -> None:
    ended: list[str] = []

    def work() -> None:
        try:
            with time_limit(0.1):
                while True:
                    check_time()
        except TimeIsUpError:
            ended.append("yes")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == ["yes"]
    check_time()


@pytest.mark.parametrize("said", ["0", "-1", "x", "1.5", "9" * 5000])
def test_what_is_no_number_of_seconds(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(UsageError, match="no number of seconds"):
        gate_seconds()


def test_a_tree_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(draft_of("eagle-eagle3"), tmp_path / "draft")
    assert not judge_tree(root, NO_POLICY, "org/name").refused
    monkeypatch.setattr(gate, "gate_seconds", lambda: 0.01)
    verdict = judge_tree(root, NO_POLICY, "org/name")
    assert verdict.refused
    assert "takes more than 0.01 seconds" in verdict.sentence
