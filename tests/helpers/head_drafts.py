"""Drafts and targets with heads made of numbers, for the comparison of the two."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from builder.container import encode
from builder.values import bools, floats, integers

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.facts.target_weights import find_target_weights
from ckptdoctor.facts.vocabulary.heads import HeadComparison, compare_heads
from ckptdoctor.unknown import Known

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class Heads:
    """A draft for a vocabulary of `vocab` ids of which it has `size`, with rows of `width` numbers.

    The rows of its head are those of the target's that the map gives, moved by `noise` times their own length.
    `stored` makes d2t of target ids and row numbers, `rows` the head that is stored, `of` the target ids of its rows.
    `alike` is how much all rows have in common, as those of real heads do.
    """

    vocab: int = 4000
    size: int = 1000
    width: int = 128
    noise: float = 0.5
    seed: int = 1
    alike: float = 0.5
    frequency: bool = False
    dtype: str = "BF16"
    stored: Callable[[Ints, Ints], Ints] = lambda targets, index: targets - index
    rows: Callable[[Floats], Floats] = lambda rows: rows
    of: Callable[[Ints], Ints] = lambda targets: targets
    mask: Callable[[Ints], Ints] | None = None
    embedding: Callable[[Floats], Floats] | None = None
    groups: int = 0

    def write(self, folder: Path) -> Path:
        """The draft in `folder`, its target in `folder/target`."""
        random = np.random.default_rng(self.seed)
        table = random.standard_normal((self.vocab, self.width)) + self.alike * random.standard_normal(self.width)
        if self.groups:  # tokens that are much like others, as " the" is like "the"
            table += 2 * random.standard_normal((self.groups, self.width))[np.arange(self.vocab) % self.groups]
        table *= 0.02
        first = np.arange(16, dtype=np.int64)
        targets = np.concatenate([first, random.permutation(np.arange(16, self.vocab))[: self.size - 16]])
        targets = random.permutation(targets) if self.frequency else np.sort(targets)
        head = table[self.of(targets)]
        head = head + self.noise * 0.02 * random.standard_normal(head.shape)
        tensors = {
            "d2t": integers(self.stored(targets, np.arange(self.size, dtype=np.int64))),
            "lm_head.weight": floats(self.rows(head), self.dtype),
            "fc.weight": floats(np.zeros((self.width, 3 * self.width))),
            "midlayer.hidden_norm.weight": floats(np.ones(self.width)),
            "midlayer.self_attn.q_proj.weight": floats(np.zeros((16, 2 * self.width))),
        }
        if self.mask is not None:
            marks = np.zeros(self.vocab, dtype=bool)
            marks[self.mask(targets)] = True
            tensors["t2d"] = bools(marks)
        if self.embedding is not None:
            tensors["embed_tokens.weight"] = floats(self.embedding(table))
        weights = {"lm_head.weight": floats(table, self.dtype), "model.embed_tokens.weight": floats(table)}
        (folder / "target").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(encode(tensors, {"format": "pt"}))
        (folder / "target" / "model.safetensors").write_bytes(encode(weights, {"format": "pt"}))
        sizes = {"hidden_size": self.width, "vocab_size": self.vocab}
        config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": self.size, **sizes}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "target" / "config.json").write_text(json.dumps({"num_hidden_layers": 8, **sizes}))
        return folder

    def compare(self, folder: Path) -> Known[HeadComparison]:
        """Write the two, and compare them."""
        return compared(self.write(folder))


def compared(folder: Path) -> Known[HeadComparison]:
    """The comparison of the draft in `folder` with the target in it."""
    checkpoint = open_checkpoint(str(folder))
    facts = describe(checkpoint, read_target(str(folder / "target")))
    return compare_heads(checkpoint, facts.vocab, find_target_weights(str(folder / "target")))
