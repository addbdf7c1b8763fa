"""What the owner of a registry says to its gate, in the registry's URI and in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.policy import Policy

__all__ = ["TAG", "Options", "options_of", "told"]

PREFIX = "ckptdoctor"
TAG = "ckptdoctor."
"""How the names of the gate's own tags begin. Nobody else may set them."""

POLICY, MODELS = "ckptdoctor-policy", "ckptdoctor-models"
_PROMPT_SOURCES = ("prompt-template", "dummy-source")


@dataclass(frozen=True)
class Options:
    """What the owner of a registry asks of its gate: a policy, and which registered models it is about (all)."""

    policy_file: Path | None
    models: tuple[str, ...]
    tracking_uri: str | None

    def policy(self) -> Policy:
        """The policy as it is now. Raises `MlflowException` when it cannot be read: nothing passes then."""
        from ckptdoctor.registry.gate import gate_policy

        with told():
            return gate_policy(self.policy_file)

    def skips(self, name: str, source: str, is_prompt: bool) -> bool:
        """Whether it is nothing to judge: a model that the owner left out, or a prompt, which has no files."""
        if is_prompt and source in _PROMPT_SOURCES and not Path(source).exists():
            return True
        return not self.covers(name)

    def covers(self, name: str) -> bool:
        """Whether versions of `name` are judged. Some databases take `Drafts` and `drafts ` for the same name."""
        return any(fnmatchcase(name.strip().casefold(), pattern.casefold()) for pattern in self.models)


def options_of(store_uri: str, tracking_uri: str | None) -> tuple[str, Options]:
    """The URI of the store behind the gate, and what the URI says to the gate itself.

    Raises `MlflowException` for a word to the gate that it does not know: a policy must not get lost by a slip.
    """
    base, mark, query = store_uri.partition("?")
    own: dict[str, str] = {}
    rest: list[str] = []
    for part in query.split("&") if mark else ():
        key, _, value = part.partition("=")
        if key in (POLICY, MODELS):
            own[key] = unquote(value)
        elif key.startswith(f"{PREFIX}-"):
            raise MlflowException(
                f"ckptdoctor: {show(key)} in the URI of the registry is unknown; there are {POLICY} and {MODELS}.",
                error_code=INVALID_PARAMETER_VALUE,
            )
        else:
            rest.append(part)
    plain = base + (f"?{'&'.join(rest)}" if rest else "")
    if plain.lower().startswith((f"{PREFIX}+", f"{PREFIX}:")):
        plain = plain[len(PREFIX) + 1 :]
    policy = own.get(POLICY) or os.environ.get("CKPTDOCTOR_POLICY")
    models = tuple(word.strip() for word in own.get(MODELS, "*").split(",") if word.strip())
    return plain, Options(Path(policy) if policy else None, models or ("*",), tracking_uri)


@contextmanager
def told() -> Iterator[None]:
    """Sentences of ours as MLflow's own exceptions, which a server hands on and a client shows."""
    try:
        yield
    except CkptdoctorError as error:
        raise MlflowException(f"ckptdoctor: {error}", error_code=INVALID_PARAMETER_VALUE) from None
