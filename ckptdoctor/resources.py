"""The data files of ckptdoctor: where the rules that ship with it are, and the one reader of their YAML."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.limits import YAML_NUMBER

__all__ = ["YAML_LOADER", "MissingRulesError", "read_yaml", "rules_dir", "shipped"]

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YAML_LOADER(_SAFE):  # type: ignore[misc]  # noqa: N801 - a constant for whoever reads YAML
    """The loader of `yaml.safe_load`, in C where there is one and then seven times as fast. Refuses long numbers."""

    def construct_number(self, node: Any) -> Any:
        """A whole number or a float. Raises `ConstructorError` for one of more than `YAML_NUMBER` characters."""
        if len(node.value) > YAML_NUMBER:
            raise yaml.constructor.ConstructorError(None, None, "a number of too many digits", node.start_mark)
        make = self.construct_yaml_int if node.tag.endswith(":int") else self.construct_yaml_float
        return make(node)


for _kind in ("int", "float"):
    YAML_LOADER.add_constructor(f"tag:yaml.org,2002:{_kind}", YAML_LOADER.construct_number)


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


def read_yaml(path: Path) -> Any:
    """The content of a file that ships with ckptdoctor; tests have checked it."""
    return yaml.load(path.read_bytes(), Loader=YAML_LOADER)  # noqa: S506 - a safe loader


@cache
def shipped(place: str) -> Any:
    """The content of `rules/PLACE.yaml`, read once. It is shared: whoever gets it does not change it."""
    return read_yaml(rules_dir() / f"{place}.yaml")
