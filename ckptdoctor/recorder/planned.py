"""The load plan that an observation is compared with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.recorder.words import say

if TYPE_CHECKING:
    from ckptdoctor.serving import LoadPlan

__all__ = ["folder_of", "plan_beside"]


def plan_beside(
    draft: str | None, target: str | None, engine: str | None, release: str | None
) -> tuple[LoadPlan | None, str]:
    """The plan for this draft beside this target, or None and why there is none. Reads files here, nothing remote."""
    if engine is None or release is None:
        return None, say("because", "not_an_engine")
    if draft is None:
        return None, say("because", "no_path")
    folder = folder_of(draft)
    if folder is None:
        return None, say("because", "not_here", path=draft)
    try:
        from ckptdoctor.checkpoint import open_checkpoint
        from ckptdoctor.facts import describe, read_target
        from ckptdoctor.planning import chosen_engines
        from ckptdoctor.serving import load_plan

        contract, known, _ = chosen_engines([f"{engine}=={release}"])[0]
        beside = folder_of(target) if target else None
        known_target = None
        if beside is not None:
            with suppress(CkptdoctorError):
                known_target = read_target(str(beside))
        return load_plan(describe(open_checkpoint(str(folder)), known_target), contract, known), ""
    except CkptdoctorError as error:
        return None, say("because", "failed", message=error)
    except Exception as error:  # noqa: BLE001 - what was seen is worth saying without a plan, too
        return None, say("because", "broke", error=type(error).__name__, message=error)


def folder_of(name: str) -> Path | None:
    """The folder that an engine means by `name`: a path, or a repository that is in the hub's cache already."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except Exception:  # noqa: BLE001 - not installed, not cached, or no name of a repository
        return None
