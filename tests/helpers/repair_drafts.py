"""What the tests of repairs share: the state of a folder to the last bit, and a look at drafts by another reader."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import read_target
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair

__all__ = ["fingerprint", "plan_of", "read_with_safetensors", "tensor_bytes"]


def fingerprint(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Every file and folder below `folder`: inode, mode, times, links and bytes."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        seen = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file():
            content += hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = (
            seen.st_ino, seen.st_mode, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_nlink, seen.st_size, content,
        )  # fmt: skip
    return found


def plan_of(
    folder: Path, *, target: bool = True, engines: tuple[str, ...] = (), unsafe: bool = True, **more: Any
) -> RepairPlan:
    """The plan for a folder that a recipe was built into."""
    place = folder / "target"
    known = read_target(str(place)) if target and place.exists() else None
    options = Options(unsafe=unsafe, engines=tuple(chosen_engines(engines)), **more)
    return plan_repair(open_checkpoint(str(folder)), known, rulebook(), options)


def read_with_safetensors(folder: Path) -> dict[str, Any]:
    """Every tensor of the folder as numpy bytes, read by the safetensors package: name → (dtype, shape, bytes)."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118  # not a mapping
                part = file.get_slice(name)
                found[name] = (part.get_dtype(), tuple(part.get_shape()))
        for name, data in tensor_bytes(path).items():
            found[name] = (*found[name], data)
    return found


def tensor_bytes(path: Path) -> dict[str, bytes]:
    """The raw bytes of each tensor, by the header alone."""
    import json

    raw = path.read_bytes()
    length = int(np.frombuffer(raw[:8], "<u8")[0])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {n: raw[8 + length + e["data_offsets"][0] : 8 + length + e["data_offsets"][1]] for n, e in header.items()}
