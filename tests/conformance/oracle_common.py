"""What the oracles share: marked tensors, and one JSON result per draft from a process of its own.

How it is known which stored tensor landed where: every parameter is first filled with a sentinel, and every floating
tensor is handed to the engine's loader in its own shape and dtype but filled with one number that no other tensor has
(`Marks`). Whatever the loader does (rename, fuse, slice, cast, drop), each element of each parameter then tells where
it came from. Integer and boolean tensors (d2t, t2d) keep their values, because loaders compute with them.

The pure parts import without torch, so that a test can reach them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TIME_LIMIT = 60.0
"""Seconds for one draft: some configs make an engine build a model of the size of a real target."""

HARNESS_STAGES = ("start", "server", "groups")
"""An error in one of these says something about this harness, not about the draft."""

SHARDS = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "kv_proj": ("k_proj", "v_proj"),
}
"""The stored names behind the rows of a fused parameter, in row order."""


# ---- marked tensors --------------------------------------------------------------------------------------------------


def mark(number: int) -> float:
    """The number-th of a series of distinct numbers that bfloat16, float16 and float32 all hold exactly.

    Sign, exponent and 7 bits of fraction: 16 powers of two of 128 steps each, between 1 and 65536, ends left out.
    """
    exponent, step = divmod(number + 1, 128)
    if number < 0 or exponent > 15:
        raise ValueError(f"no mark {number}: a checkpoint of more than 2000 tensors is no draft")
    return float(2**exponent) * (1 + step / 128)


class Marks:
    """The tensors on their way into the loader, and afterwards the map from a value back to its stored name."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.current: str | None = None
        self._names: dict[float, str] = {}
        self._plain: dict[str, Any] = {}

    def __call__(self, stored: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        import torch

        for key, tensor in stored:
            self.keys.append(key)
            self.current = key
            # Only dtypes that hold a mark; the engine has already read, joined and named the tensor by itself.
            if getattr(tensor, "dtype", None) in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
                value = mark(len(self._names))
                self._names[value] = key
                yield key, torch.full_like(tensor, value)
            else:
                if isinstance(tensor, torch.Tensor):
                    self._plain[key] = tensor.clone()
                yield key, tensor
        self.current = None

    def of_values(self, values: Iterable[float]) -> list[str]:
        """The stored names behind values, in file order; what no mark explains is `<computed>`."""
        found = {self._names.get(value, "<computed>") for value in values}
        return [key for key in [*dict.fromkeys(self.keys), "<computed>"] if key in found]

    def of_equal(self, tensor: Any) -> list[str]:
        """The stored tensor (of those that keep their values) that this one equals."""
        import torch

        for key, plain in self._plain.items():
            same_size = plain.numel() == tensor.numel() > 0
            if same_size and torch.equal(plain.flatten().to(tensor), tensor.flatten()):
                return [key]
        return []

    def plain(self) -> dict[str, Any]:
        return dict(self._plain)


_INTEGER_SENTINEL = 77


def fill_with_sentinel(model: Any) -> None:
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_meta:
                parameter.data.fill_(float("nan") if parameter.is_floating_point() else _INTEGER_SENTINEL)


def account(model: Any, marks: Marks, result: dict[str, Any]) -> None:
    """Fills loaded, partially, untouched and ignored from what the parameters hold after the load."""
    for name, parameter in model.named_parameters():
        sources, missing = _trace(parameter.detach(), marks)
        if not sources:
            result["untouched"].append(name)
            continue
        result["loaded"][name] = sources
        if missing is not None:
            owner = model.get_submodule(name.rpartition(".")[0])
            result["partially"][name] = missing_shards(name, _shard_sizes(owner), missing.tolist())
    for name, buffer in model.named_buffers():
        sources, _ = _trace(buffer.detach(), marks)
        if sources and "<computed>" not in sources:
            result["loaded"][name] = sources
    landed = {key for keys in result["loaded"].values() for key in keys}
    result["ignored"] = [key for key in dict.fromkeys(marks.keys) if key not in landed]


def _trace(tensor: Any, marks: Marks) -> tuple[list[str], Any]:
    """Which stored tensors a parameter holds, and which of its rows (a boolean each) still hold the sentinel."""
    if tensor.is_meta or not tensor.numel():
        return [], None
    if not tensor.is_floating_point():
        untouched = (tensor == _INTEGER_SENTINEL).all()
        return ([] if untouched else marks.of_equal(tensor) or ["<computed>"]), None
    values = tensor.float()
    unfilled = values.isnan()
    if unfilled.all():
        return [], None
    rows = unfilled.reshape(values.shape[0], -1).any(dim=1) if values.dim() else unfilled.reshape(1)
    found = values[~unfilled].unique().tolist() if tensor.element_size() > 1 else []
    return marks.of_values(found) if found else marks.of_equal(tensor), rows if rows.any() else None


def _shard_sizes(module: Any) -> list[int]:
    return list(getattr(module, "output_partition_sizes", None) or getattr(module, "output_sizes", None) or [])


def missing_shards(name: str, sizes: Sequence[int], unfilled_rows: Sequence[bool]) -> list[str]:
    """Names the parts of a fused parameter that nothing filled; rows, where the parts have no names."""
    parts = name.split(".")
    names = SHARDS.get(parts[-2] if len(parts) > 1 else "", ())
    if not names or len(names) != len(sizes) or sum(sizes) != len(unfilled_rows):
        return [f"rows {a}:{b}" for a, b in _runs(unfilled_rows)]
    missing, start = [], 0
    for shard, size in zip(names, sizes, strict=True):
        if any(unfilled_rows[start : start + size]):
            missing.append(shard)
        start += size
    return missing


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    edges = [i for i in range(len(flags) + 1) if (i > 0 and flags[i - 1]) != (i < len(flags) and flags[i])]
    return list(zip(edges[::2], edges[1::2], strict=True))


# ---- one result per draft --------------------------------------------------------------------------------------------


def new_result(engine: str, release: str, draft: Path) -> dict[str, Any]:
    return {
        "engine": engine,
        "release": release,
        "draft": draft.name,
        "architectures": [],
        "model_class": None,
        "parameters": {},
        "loaded": {},
        "partially": {},
        "untouched": [],
        "ignored": [],
        "d2t": None,
        "error": None,
        "notes": {},
    }


def describe_map(tensor: Any, kept_as: str, offsets: bool) -> dict[str, Any]:
    """What became of d2t: under which name the engine keeps it and which target ids it gives."""
    import torch

    ids = tensor.detach().flatten()
    if offsets:
        ids = ids + torch.arange(ids.numel(), dtype=ids.dtype)
    return {
        "kept_as": kept_as,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "target_ids": {"first": ids[:6].tolist(), "min": int(ids.min()), "max": int(ids.max()), "count": ids.numel()},
    }


Stage = Callable[[str], None]
"""Tells the harness what comes next; an error names the stage it happened in."""


Load = Callable[[Path, dict[str, Any], Stage], None]
"""Loads one draft into one engine and fills the result; an exception is the engine's answer."""


def run_all(engine: str, release: str, out: Path, drafts: Sequence[Path], load: Load) -> int:
    """Calls `load` in a child process per draft, so that none can hang, crash or colour the others.

    Returns how many results are no answer of the engine: crashed children, and failures of the harness itself. One
    that runs out of time is an answer: that engine builds a model of the size of a target.
    """
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for draft in drafts:
        file = out / f"{draft.name}.json"
        _write(file, new_result(engine, release, draft))
        started = time.monotonic()
        ended = _in_child(partial(_one, engine, release, draft, file, load))
        result = json.loads(file.read_text(encoding="utf-8"))
        if ended is not None:
            result["error"] = {"stage": _stage_of(result), "type": "Ended", "message": ended}
            _write(file, result)
        error = result["error"]
        failed += error is not None and (error["stage"] in HARNESS_STAGES or (ended or "").startswith("exit"))
        said = f"{len(result['loaded'])} loaded"
        if error:
            said = f"{error['stage']}: {error['type']}: {error['message'][:120]!r}"
        print(f"{engine} {release} {draft.name} {time.monotonic() - started:.1f}s {said}", flush=True)
    return failed


def _one(engine: str, release: str, draft: Path, file: Path, load: Load) -> None:
    result = new_result(engine, release, draft)

    def stage(name: str) -> None:
        # On the disk before it begins: if this process is ended, the file says where.
        result["error"] = {"stage": name, "type": "Ended", "message": ""}
        _write(file, result)

    try:
        load(draft, result, stage)
        result["error"] = None
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is the answer
        message = re.sub(r"0x[0-9a-f]{8,}", "0x…", str(error).replace(str(draft), draft.name))
        result["error"] = {"stage": _stage_of(result), "type": type(error).__name__, "message": message[:1500]}
        if os.environ.get("CKPTDOCTOR_CONFORMANCE_TRACEBACK"):
            traceback.print_exc()
    _write(file, result)


def _stage_of(result: dict[str, Any]) -> str:
    error = result["error"]
    return str(error["stage"]) if error else "start"


def _write(file: Path, result: dict[str, Any]) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")
    temporary.replace(file)


def _in_child(work: Callable[[], None]) -> str | None:
    """Runs work in a fork; None if it ended by itself, else what ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - a fork must not go on into its parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + TIME_LIMIT
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"time limit of {TIME_LIMIT:.0f} s"
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(status)
    return None if code == 0 else f"exit {code}"
