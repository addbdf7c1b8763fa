"""The target's embedding and head, looked up by headers alone: rows to compare with, or to copy into, a draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from ckptdoctor.checkpoint.remote import remote_at
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.knowledge import knowledge

__all__ = ["TargetWeights", "find_target_weights"]


@dataclass(frozen=True)
class TargetWeights:
    """The target's matrices that a draft may share: where they are stored, None where they are not.

    `head` is the embedding where the target ties the two (`tie_word_embeddings`) and stores no head. Shapes are
    [vocabulary, hidden size].
    """

    path: str
    checkpoint: Checkpoint
    embedding: TensorInfo | None
    head: TensorInfo | None

    def place(self, info: TensorInfo) -> Path | None:
        """The real file that `info` is stored in."""
        return self.checkpoint.real_path(info.file)


def find_target_weights(path: str) -> TargetWeights | None:
    """The weights of the target at `path`; None when only its config is there, its files are damaged or pickles, or
    they are not on this machine."""
    if remote_at(Path(path)) is not None:
        return None
    try:
        checkpoint = open_checkpoint(path)
    except CannotExamineError:
        return None
    if checkpoint.kind != "safetensors" or not checkpoint.names_sound:
        return None
    words = knowledge().naming["target_matrices"]
    embedding = _matrix(checkpoint, words["embedding"])
    head = _matrix(checkpoint, words["head"])
    config: Mapping[str, Any] = checkpoint.config.object if checkpoint.config else {}
    if head is None and _tied(config):
        head = embedding
    return TargetWeights(path, checkpoint, embedding, head)


def _matrix(checkpoint: Checkpoint, names: list[str]) -> TensorInfo | None:
    for name in names:
        info = checkpoint.tensors.get(name)
        if info is not None and len(info.shape) == 2 and info.dtype in ("BF16", "F16", "F32"):
            return info
    return None


def _tied(config: Mapping[str, Any]) -> bool:
    inner = [v for v in config.values() if isinstance(v, dict)]
    return any(c.get("tie_word_embeddings") is True for c in (config, *inner))
