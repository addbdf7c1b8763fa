"""What a call reads, for the guard before the files that it writes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.outputs import Reads

if TYPE_CHECKING:
    from ckptdoctor.policy import Policy

__all__ = ["reads_of"]


def reads_of(
    drafts: Iterable[str],
    *,
    target: str | None = None,
    against: str | None = None,
    launch: str | None = None,
    token_counts: str | None = None,
    rules: Iterable[Path] = (),
    policy: Policy | None = None,
    baseline: Path | None = None,
) -> Reads:
    """Everything that a command with these arguments reads; what `policy` names counts where an argument is missing.

    What cannot be read is left out: the command itself says so, in its own sentence.
    """
    reads = Reads()
    for draft in drafts:
        reads.checkpoint(draft, "the draft")
    if policy is not None:
        target = target if target is not None else policy.target
        launch = launch if launch is not None else policy.launch
        reads.file(policy.source, "the project file")
    reads.checkpoint(target, "the target")
    reads.checkpoint(against, "the copy to compare with")
    for folder in (*rules, *(policy.rules if policy is not None else ())):
        reads.folder(folder, "the rules")
    reads.file(baseline, "the baseline")
    if launch is not None:
        from ckptdoctor.launch.files import launch_files

        with suppress(CkptdoctorError):
            for file in launch_files(launch):
                reads.file(file, "a file of the launch line")
    if token_counts is not None:
        from ckptdoctor.tokencounts.token_counts import count_files

        with suppress(CkptdoctorError):
            for file in count_files(token_counts):
                reads.file(file, "a file of the token counts")
    return reads
