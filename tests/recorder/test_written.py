"""Which parameters a loader writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from ckptdoctor.recorder.written import watch_loading  # noqa: E402


def a_model() -> Any:
    model = torch.nn.Module()
    for name, shape in {"plain": (4, 3), "fused": (6, 3), "norm": (3,), "left": (2, 2)}.items():
        setattr(model, name, torch.nn.Parameter(torch.ones(shape)))
    return model


def watched(model: Any, load: Any) -> dict[str, str]:
    failures: list[Exception] = []
    result, left = watch_loading(model, load, failures.append)
    assert result == "result"
    assert failures == []
    return left


def test_writes_that_version_counters_do_not_see() -> None:
    model = a_model()

    def load() -> str:
        model.plain.data.copy_(torch.zeros(4, 3))
        model.fused.data.narrow(0, 2, 2).copy_(torch.zeros(2, 3))
        model.fused.data[4:] = 7
        model.norm.data.copy_(torch.ones(3))  # the value that stood there before
        return "result"

    assert watched(model, load) == {"fused": "partly", "left": "never"}
    assert model.left.eq(1).all()


def test_the_same_rows_twice_are_no_whole() -> None:
    model = a_model()

    def load() -> str:
        for _ in range(3):
            model.fused.data[:2].copy_(torch.zeros(2, 3))
        return "result"

    assert watched(model, load)["fused"] == "partly"


def test_another_tensor_in_its_place() -> None:
    model = a_model()

    def load() -> str:
        model.left = torch.nn.Parameter(torch.zeros(2, 2))
        model.plain.data = torch.zeros(4, 3)
        return "result"

    assert watched(model, load) == {"fused": "never", "norm": "never"}


def test_writes_of_other_threads_are_seen_by_their_values() -> None:
    model = a_model()

    def load() -> str:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: model.plain.data.copy_(torch.zeros(4, 3))).result()
        return "result"

    assert "plain" not in watched(model, load)


def test_memory_that_holds_no_numbers() -> None:
    model = a_model()
    model.left.data.fill_(float("nan"))
    assert watched(model, lambda: "result")["left"] == "never"


def test_an_error_of_the_loader_passes() -> None:
    def load() -> str:
        raise KeyError("fc.weight")

    with pytest.raises(KeyError):
        watch_loading(a_model(), load, lambda _error: None)


def test_a_model_that_cannot_be_looked_at_is_loaded_all_the_same() -> None:
    class Strange:
        def named_parameters(self) -> Any:
            raise RuntimeError("no")

    failures: list[Exception] = []
    assert watch_loading(Strange(), lambda: "result", failures.append) == ("result", {})
    assert len(failures) == 1
