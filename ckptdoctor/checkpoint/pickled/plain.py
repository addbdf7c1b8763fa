"""What small PyTorch files hold, as JSON with bytes beside it: written where torch is, read where it is not."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint.pickled.loading import unplain
from ckptdoctor.limits import PICKLE_MEMORY

__all__ = ["Other", "PlainTensor", "decoded", "encoded"]

Answer = dict[str, Any]


@dataclass(frozen=True)
class PlainTensor:
    """A tensor of a small file. `dtype` is torch's name; `array` its values (bfloat16 as float32), None where it has no
    plain ones."""

    dtype: str
    shape: tuple[int, ...]
    array: Any


@dataclass(frozen=True)
class Other:
    """Something in a small file that is neither plain nor a tensor, by the name of its type."""

    type_name: str


def encoded(value: Any, blobs: list[bytes], depth: int = 4) -> Answer:
    """A plain value as JSON with bytes beside it; what is neither plain nor a tensor is told by its type alone."""
    import torch

    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return _tensor(value, blobs)
    if value is None or isinstance(value, (bool, float, str)):
        return {"is": "plain", "v": value}
    if isinstance(value, int):
        return {"is": "plain", "v": value} if abs(value) < 2**64 else {"is": "other", "type": kind}
    if depth and isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return {"is": "dict", "type": kind, "k": _sequence(keys, blobs, depth), "v": _sequence(values, blobs, depth)}
    if depth and isinstance(value, (list, tuple)):
        return {"is": "list", "type": kind, "v": _sequence(value, blobs, depth)}
    return {"is": "other", "type": kind}


def _sequence(values: Any, blobs: list[bytes], depth: int) -> Answer:
    if values and all(type(value) is int for value in values):
        try:
            blobs.append(array("q", values).tobytes())
            return {"ints": len(blobs) - 1}
        except OverflowError:
            pass
    return {"items": [encoded(value, blobs, depth - 1) for value in values]}


def _tensor(value: Any, blobs: list[bytes]) -> Answer:
    import torch

    name = str(value.dtype).removeprefix("torch.")
    row: Answer = {"is": "tensor", "dtype": name, "shape": list(value.shape), "array": None}
    tensor = value.detach()
    if unplain(tensor) is not None or tensor.is_complex() or tensor.numel() * tensor.element_size() > PICKLE_MEMORY:
        return row
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    try:
        numbers = tensor.contiguous().numpy()
    except (RuntimeError, TypeError):
        return row
    blobs.append(numbers.tobytes())
    return {**row, "array": numbers.dtype.str, "blob": len(blobs) - 1}


def decoded(value: Answer, blobs: list[bytes]) -> Any:
    """The value that `encoded` made this of."""
    kind = value["is"]
    if kind == "plain":
        return value["v"]
    if kind == "list":
        items = _items(value["v"], blobs)
        return tuple(items) if value["type"] == "tuple" else items
    if kind == "dict":
        made = dict(zip(_items(value["k"], blobs), _items(value["v"], blobs), strict=True))
        return Counter(made) if value["type"] == "Counter" else made
    if kind == "tensor":
        return PlainTensor(value["dtype"], tuple(value["shape"]), _array(value, blobs))
    return Other(value["type"])


def _items(row: Answer, blobs: list[bytes]) -> list[Any]:
    if "ints" in row:
        import numpy as np

        found: list[Any] = np.frombuffer(blobs[row["ints"]], dtype=np.int64).tolist()
        return found
    return [decoded(item, blobs) for item in row["items"]]


def _array(value: Answer, blobs: list[bytes]) -> Any:
    if value["array"] is None:
        return None
    import numpy as np

    return np.frombuffer(blobs[value["blob"]], dtype=value["array"]).reshape(value["shape"])
