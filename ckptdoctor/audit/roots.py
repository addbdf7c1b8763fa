"""The trees of an audit: what each address names, and how the keys of its checkpoints begin."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.audit.places import FOLDER_LIMIT, Place, local_places
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["Root", "places_in", "roots_of"]


@dataclass(frozen=True)
class Root:
    """One tree: `kind` is `local`, `hub` or `fsspec`; `label` begins the keys of what lies in it."""

    address: str
    kind: str
    label: str


def roots_of(addresses: Sequence[str]) -> tuple[Root, ...]:
    """The trees at `addresses`, each once; one that lies in another is a part of that.

    Raises `CannotExamineError` for a folder that is not there.
    """
    kinds = {address.rstrip("/") or "/": _kind(address) for address in addresses}
    local = [address for address, kind in kinds.items() if kind == "local"]
    real = {address: Path(os.path.realpath(address)) for address in local}
    inner = {
        a for n, a in enumerate(local) for m, b in enumerate(local)
        if (real[a] != real[b] and real[a].is_relative_to(real[b])) or (real[a] == real[b] and m < n)
    }  # fmt: skip
    kept = {address: kind for address, kind in kinds.items() if address not in inner}
    names = {address: _name(address, kind) for address, kind in kept.items()}
    often = Counter(names.values())
    return tuple(
        Root(address, kind, names[address] if often[names[address]] == 1 else str(real.get(address, address)))
        for address, kind in kept.items()
    )


def places_in(roots: Sequence[Root], limit: int = FOLDER_LIMIT) -> Iterator[Place]:
    """The places of all trees. Raises `CkptdoctorError` where a tree as a whole cannot be read."""
    for root in roots:
        if root.kind == "local":
            yield from local_places(root.address, root.label, limit)
            continue
        from ckptdoctor.audit.elsewhere import fsspec_places, hub_places

        walk = hub_places if root.kind == "hub" else fsspec_places
        yield from walk(root.address, root.label, limit)


def _kind(address: str) -> str:
    if address.startswith("hf://"):
        return "hub"
    if "://" in address or "::" in address:
        return "fsspec"
    try:
        if Path(address).is_dir():
            return "local"
    except (OSError, ValueError):
        pass
    what = "is a file, not a folder" if Path(address).is_file() else "no such folder"
    raise CannotExamineError(f"{show(address)}: {what}")


def _name(address: str, kind: str) -> str:
    if kind == "local":
        return Path(os.path.realpath(address)).name or "/"
    if kind == "hub":
        return address.removeprefix("hf://").partition("@")[0]
    return address
