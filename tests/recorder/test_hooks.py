"""Replacements and their removal; the import of a module that is waited for."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.recorder import importing

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from ckptdoctor.recorder.patches import Patches  # noqa: E402


class Doubles(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x: Any, *, scale: float = 2.0) -> Any:
        """Doc."""
        return self.fc(x) * scale


def passing(seen: list[int]) -> Any:
    def around(original: Any, args: Any, kwargs: Any) -> Any:
        seen.append(len(args))
        return original(*args, **kwargs)

    return around


def test_an_instance_is_as_it_was() -> None:
    model, other, seen, patches = Doubles(), Doubles(), [], Patches()
    before, keys = model.forward, set(vars(model))
    patches.wrap(model, "forward", passing(seen))
    patches.wrap(model.fc, "forward", passing(seen))
    assert model.forward.__doc__ == "Doc."
    x = torch.ones(1, 2)
    assert torch.equal(model(x), before(x))
    other(x)
    assert seen == [1, 1, 1]
    patches.undo()
    assert set(vars(model)) == keys
    assert "forward" not in vars(model.fc)
    assert model.forward == before
    assert len(patches) == 0


def test_classes_and_modules_are_as_they_were() -> None:
    class Base:
        def run(self) -> int:
            return 1

    class Child(Base):
        pass

    module = types.ModuleType("some_module")
    module.build = lambda: 2  # type: ignore[attr-defined]
    build, seen, patches = module.build, [], Patches()
    patches.wrap(Base, "run", passing(seen))
    patches.wrap(module, "build", passing(seen))
    assert Child().run() + module.build() == 3
    patches.undo()
    assert module.build is build
    assert Base.__dict__["run"].__qualname__.endswith("Base.run")
    assert Child().run() == 1
    assert seen == [1, 0]


def test_what_others_put_on_top_stays_and_ours_lets_through() -> None:
    model, seen, patches = Doubles(), [], Patches()
    patches.wrap(model, "forward", passing(seen))
    ours = model.forward
    model.forward = lambda x: ours(x) + 1  # type: ignore[method-assign]
    patches.undo()
    x = torch.ones(1, 2)
    assert torch.allclose(model(x), Doubles.forward(model, x) + 1)
    assert seen == []


def test_no_break_in_a_compiled_graph() -> None:
    model, seen, patches = Doubles(), [], Patches()
    patches.wrap(model, "forward", passing(seen))
    patches.wrap(model.fc, "forward", passing(seen))
    compiled = torch.compile(model, backend="eager", fullgraph=True)  # fullgraph: a break is an error
    x = torch.ones(1, 2)
    assert torch.equal(compiled(x), Doubles.forward(model, x))
    patches.undo()
    assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("already", [False, True])
def test_a_module_that_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, already: bool) -> None:
    (tmp_path / "waited_for.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "waited_for", raising=False)
    if already:
        importlib.import_module("waited_for")
    seen: list[int] = []
    importing.when_imported("waited_for", lambda module: seen.append(module.value))
    module = importlib.import_module("waited_for")
    assert seen == [1]
    assert type(module.__spec__.loader).__module__ != importing.__name__  # type: ignore[union-attr]
    importing.forget()
    assert all(type(f).__module__ != importing.__name__ for f in sys.meta_path)
    monkeypatch.delitem(sys.modules, "waited_for")
