"""What stands at an address of the Hub. A scan of this machine's files loads nothing of the Hub's reader for it."""

from __future__ import annotations

from ckptdoctor.checkpoint.remote import RemoteFolder

__all__ = ["open_remote"]


def open_remote(path: str) -> RemoteFolder:
    """The repository that `path` (`hf://org/name[@revision]`) names. Raises `RemoteError`, `CannotExamineError`."""
    from ckptdoctor.checkpoint.hub import hub_folder

    return hub_folder(path)
