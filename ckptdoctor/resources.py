"""Where the data files of ckptdoctor are: the rules that ship with it."""

from __future__ import annotations

from pathlib import Path

from ckptdoctor.errors import CkptdoctorError

__all__ = ["MissingRulesError", "rules_dir"]


class MissingRulesError(CkptdoctorError):
    """The installation is incomplete: the rules that ship with ckptdoctor are not there (exit 3)."""


def rules_dir(package: Path | None = None) -> Path:
    """The folder with `checks/`, `schema/` and the other rule data.

    An installed wheel carries it inside the package as `_rules`; in a checkout it is `rules`, beside
    the package. `package` is the folder of the package, by default this one. Raises
    `MissingRulesError` when there is neither.
    """
    home = Path(__file__).parent if package is None else package
    for candidate in (home / "_rules", home.parent / "rules"):
        if candidate.is_dir():
            return candidate
    raise MissingRulesError(
        f"the rules that belong to ckptdoctor are missing: there is neither {home / '_rules'} "
        f"nor {home.parent / 'rules'}; install ckptdoctor again"
    )
