"""Tensors on their way to the host, without waiting for the device."""

from __future__ import annotations

from typing import Any

__all__ = ["Transfer"]


class Transfer:
    """Copies of tensors on the host. `values()` waits for them; only the recorder's own thread calls it.

    A copy into pinned memory is queued behind the work that makes the tensor, and an event after it: the engine's
    thread goes on at once. Devices that have neither are copied plainly.
    """

    def __init__(self) -> None:
        self._taken: dict[str, Any] = {}
        self._event: Any = None

    def take(self, name: str, tensor: Any) -> None:
        """Starts the copy of `tensor`; what happens to it afterwards does not change the copy."""
        import torch

        tensor = tensor.detach()
        if tensor.device.type == "cuda":
            # Engines build and run models with a GPU as the default device.
            host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
            host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(tensor.device))
            self._taken[name] = host
        else:
            self._taken[name] = tensor.to("cpu", copy=True)

    def values(self) -> dict[str, Any]:
        """The copies, once all of them have arrived."""
        if self._event is not None:
            self._event.synchronize()
        return self._taken
