"""Which parameters a loader writes, without touching them.

Loaders write with `param.data.copy_(…)`, which the version counters of torch do not see (`.data` has its own). Every
operation that writes in place passes torch's dispatcher; there its storage, offset and size are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["NEVER", "PARTLY", "watch_loading"]

NEVER, PARTLY = "never", "partly"
_SAMPLE = 64
"""Elements of a parameter that are compared before and after, for loaders that write in threads of their own."""


def watch_loading(
    model: Any, load: Callable[[], Any], failed: Callable[[Exception], None]
) -> tuple[Any, dict[str, str]]:
    """What `load()` returns, and the parameters that it did not write: name → `never` or `partly`.

    An exception of `load` passes; one of our own goes to `failed`, and the answer is then empty.
    """
    notes: Any = None
    before: dict[str, tuple[int, Any]] = {}
    try:
        notes = _notes_of_writes()
        before = {name: (p.data_ptr(), _bits(p)) for name, p in model.named_parameters()}
    except Exception as error:  # noqa: BLE001 - the engine goes on without our notes
        failed(error)
        return load(), {}
    with notes:
        result = load()
    try:
        return result, _unwritten(model, before, notes.writes)
    except Exception as error:  # noqa: BLE001 - as above
        failed(error)
        return result, {}


def _unwritten(
    model: Any, before: Mapping[str, tuple[int, Any]], writes: Mapping[int, set[tuple[int, int]]]
) -> dict[str, str]:
    import torch

    left: dict[str, str] = {}
    for name, parameter in model.named_parameters():
        if name not in before or parameter.data_ptr() != before[name][0] or parameter.numel() == 0:
            continue  # new, or another tensor in its place: that is as good as written
        start, size = parameter.data_ptr(), parameter.numel() * parameter.element_size()
        noted = writes.get(parameter.untyped_storage().data_ptr(), ())
        written = sum(count for at, count in noted if start <= at < start + size)
        if written >= parameter.numel():
            continue
        if written:
            left[name] = PARTLY
        elif torch.equal(_bits(parameter), before[name][1]):
            left[name] = NEVER
    return left


def _bits(parameter: Any) -> Any:
    """A few elements spread over the parameter, as bytes: memory that nobody wrote may hold no numbers."""
    import torch

    flat = parameter.detach().reshape(-1) if parameter.is_contiguous() else parameter.detach().flatten()[:_SAMPLE]
    step = max(1, flat.numel() // _SAMPLE)
    return flat[::step][:_SAMPLE].clone().view(torch.uint8)


def _notes_of_writes() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Notes(TorchDispatchMode):  # type: ignore[misc]  # torch is not seen by the type check
        """Notes each write in place: storage → {(address, elements)}."""

        def __init__(self) -> None:
            super().__init__()
            self.writes: dict[int, set[tuple[int, int]]] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            schema = getattr(func, "_schema", None)
            if schema is not None and schema.is_mutable:
                try:
                    self._note(schema, args, kwargs or {})
                except Exception:  # noqa: BLE001 - a tensor without memory, a new kind of argument: no note
                    return result
            return result

        def _note(self, schema: Any, args: Any, kwargs: Any) -> None:
            for place, argument in enumerate(schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, torch.Tensor):
                        storage = tensor.untyped_storage().data_ptr()
                        self.writes.setdefault(storage, set()).add((tensor.data_ptr(), tensor.numel()))

    return Notes()
