"""What the oracles share: one JSON result per draft, from a process of its own."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TIME_LIMIT = float(os.environ.get("CKPTDOCTOR_CONFORMANCE_SECONDS", "60"))
"""Seconds for one draft: some configs make an engine build a model of the size of a real target."""

HARNESS_STAGES = ("start", "server", "groups")
"""An error in one of these says something about this harness, not about the draft."""


def new_result(engine: str, release: str, draft: Path) -> dict[str, Any]:
    return {
        "engine": engine,
        "release": release,
        "draft": draft.name,
        "architectures": [],
        "model_class": None,
        "parameters": {},
        "initial": {},
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
    imported = out / "imported"
    for draft in drafts:
        file = out / f"{draft.name}.json"
        _write(file, new_result(engine, release, draft))
        started = time.monotonic()
        ended = _in_child(partial(_one_and_imports, partial(_one, engine, release, draft, file, load), imported))
        _import_too(imported)
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


def _one_and_imports(work: Callable[[], None], imported: Path) -> None:
    """Does the work, then writes down what it had to import."""
    before = set(sys.modules)
    try:
        work()
    finally:
        imported.write_text("\n".join(name for name in sys.modules if name not in before), encoding="utf-8")


def _import_too(imported: Path) -> None:
    """Imports what a child had to import, so that the next ones find it there: imports take most of the time."""
    names = imported.read_text(encoding="utf-8").split("\n") if imported.exists() else []
    imported.unlink(missing_ok=True)
    for name in names:
        if name and name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.freeze()  # a collection in a child would copy all that it shares with this process


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
        result["error"] = {
            "stage": _stage_of(result),
            "type": type(error).__name__,
            "message": message[:1500],
            "raised_in": _raised_in(error),
        }
        if os.environ.get("CKPTDOCTOR_CONFORMANCE_TRACEBACK"):
            traceback.print_exc()
    _write(file, result)


def _raised_in(error: BaseException) -> str:
    """The function that raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].name if frames else ""


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
    ending = os.pidfd_open(child)
    ended, _, _ = select.select([ending], [], [], TIME_LIMIT)
    os.close(ending)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return f"time limit of {TIME_LIMIT:.0f} s"
    code = os.waitstatus_to_exitcode(status)
    return None if code == 0 else f"exit {code}"
