"""ckptdoctor: the checkpoint doctor for the draft models of speculative decoding.

    >>> from ckptdoctor import scan
    >>> for finding in scan("my-draft", target="my-target").findings:
    ...     print(finding.rule, finding.message)

The names below are the public API; they are imported when first used, so that `import ckptdoctor`
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "CannotExamineError",
    "CkptdoctorError",
    "Confidence",
    "Examination",
    "Finding",
    "Severity",
    "UsageError",
    "__version__",
    "fix",
    "scan",
]

if TYPE_CHECKING:
    from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError
    from ckptdoctor.findings import Confidence, Examination, Finding, Severity
    from ckptdoctor.repair.fixing import fix
    from ckptdoctor.scanning import scan
    from ckptdoctor.version import __version__

_HOMES = {
    "CannotExamineError": "ckptdoctor.errors",
    "CkptdoctorError": "ckptdoctor.errors",
    "UsageError": "ckptdoctor.errors",
    "Confidence": "ckptdoctor.findings",
    "Examination": "ckptdoctor.findings",
    "Finding": "ckptdoctor.findings",
    "Severity": "ckptdoctor.findings",
    "fix": "ckptdoctor.repair.fixing",
    "scan": "ckptdoctor.scanning",
    "__version__": "ckptdoctor.version",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ckptdoctor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
