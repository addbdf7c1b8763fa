"""The errors that a person sees as one sentence; each carries the exit code that the command line returns."""

from __future__ import annotations


class CkptdoctorError(Exception):
    """Something that is told to the person in one clear sentence, without a traceback."""

    exit_code = 3


class UsageError(CkptdoctorError):
    """The call itself is wrong: an unknown rule id, a bad rule file, an option that does not fit (exit 2)."""

    exit_code = 2


class CannotExamineError(CkptdoctorError):
    """The work could not be done: no such path, nothing that looks like a checkpoint, unreadable (exit 3)."""

    exit_code = 3
