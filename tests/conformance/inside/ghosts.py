"""What surrounds an engine's own functions where they run without a GPU: ghosts, which are anything at all."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from typing import Any


class Ghost:
    """Any attribute, call, item or number; false. Attributes that are set stay."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Ghost()
        self.__dict__[name] = made
        return made

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return Ghost()

    def __getitem__(self, _key: Any) -> Any:
        return Ghost()

    def __setitem__(self, _key: Any, _value: Any) -> None:
        return None

    def __contains__(self, _item: Any) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __int__(self) -> int:
        return 0

    __index__ = __int__

    def __float__(self) -> float:
        return 0.0

    def _same(self, *_other: Any) -> Any:
        return self

    def _no(self, _other: Any) -> bool:
        return False

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __or__ = __ror__ = __and__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _no


class Solid(Ghost):
    """A ghost that is there."""

    def __bool__(self) -> bool:
        return True


def alone(function: Any, **real: Any) -> Any:
    """The engine's own function with ghosts for every global name but Python's and those given."""
    import builtins

    names: set[str] = set()
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    known = {"__builtins__": builtins, "__name__": function.__module__, "__package__": None}
    space: dict[str, Any] = {n: Ghost() for n in names if not hasattr(builtins, n)}
    space.update({n: importlib.import_module(n) for n in ("inspect", "os", "time") if n in names})
    space.update({**known, **real})
    made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
