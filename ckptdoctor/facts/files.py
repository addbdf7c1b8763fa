"""The checkpoint as files, for rules: its faults and what lies beside the weights."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.checkpoint import Checkpoint, Fault
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Files", "describe_files"]


@dataclass(frozen=True)
class NameDifference:
    """Names that only one of two copies of the weights has."""

    file: str
    only_in_pickle: tuple[str, ...]
    only_in_safetensors: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """The files of a checkpoint.

    `kind` is `safetensors` or `pickle`; `size` is in bytes. `has_config` says whether a config.json is
    there; `whole_folder` is False when the person named a single file. `nested_in` is the key of a
    trainer's saved state in which the tensors sit. `beside` compares a pickle that lies beside the
    safetensors: None without one, or when both hold the same names.
    """

    kind: str
    names: tuple[str, ...]
    size: int
    tensor_count: int
    faults: tuple[Fault, ...]
    whole_folder: bool
    has_config: bool
    names_sound: bool
    nested_in: str | None
    state_keys: tuple[str, ...]
    beside: Known[NameDifference | None]


def describe_files(checkpoint: Checkpoint) -> Files:
    """The facts about files that rules judge."""
    return Files(
        kind=checkpoint.kind,
        names=checkpoint.files,
        size=checkpoint.size,
        tensor_count=len(checkpoint.tensors),
        faults=checkpoint.faults,
        whole_folder=checkpoint.whole_folder,
        has_config=checkpoint.config is not None,
        names_sound=checkpoint.names_sound,
        nested_in=checkpoint.nested_in,
        state_keys=checkpoint.state_keys,
        beside=_difference(checkpoint),
    )


def _difference(checkpoint: Checkpoint) -> Known[NameDifference | None]:
    names = checkpoint.beside_names
    if names is None or isinstance(names, Unknown):
        return names
    pickled, stored = set(names), set(checkpoint.tensors)
    if pickled == stored or not checkpoint.names_sound:
        return None
    return NameDifference(checkpoint.beside[0], tuple(sorted(pickled - stored)), tuple(sorted(stored - pickled)))
