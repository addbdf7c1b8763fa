"""dtypes: what the config says the draft is computed in, what its matrices are stored in, and what the target is.

SGLang computes a draft in the dtype of its own config unless `--dtype` is given, and takes float16 for float32 and for
no dtype at all (configs/model_config.py, _get_and_verify_dtype, 0.4.9 to 0.5.23). vLLM computes it in the target's
(config/speculative.py, 0.10.2 to 0.33.0). The names here are those of configs: `bfloat16`, not `BF16`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.target import Target
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["HALVES", "Dtypes", "own_dtype", "read_dtypes", "target_dtype"]

HALVES = ("float16", "bfloat16")
"""The dtypes of 16 bits: a value of one is changed by a cast to the other."""

_SPELLINGS = ("torch_dtype", "dtype")
_STORED = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
# Names that torch has; transformers looks a dtype up there (run with 4.57 and 5.19).
_NAMES = (
    "float16", "half", "bfloat16", "float32", "float", "float64", "double", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "int8", "uint8", "int32", "int64",
)  # fmt: skip
_NO_TARGET = Unknown("the target (--target PATH)")
_NOT_GIVEN = Unknown("dtype in the target's config")


@dataclass(frozen=True)
class Dtypes:
    """The dtypes of a draft.

    `declared` is what config.json says (at `key`, `line`); `contrary` is what the other spelling says (at
    `contrary_key`) where the two differ. `stored` is the dtype of most matrices, None where they are quantised or there
    are none; `kinds` are the dtypes of all matrices, the most frequent first, and `stray` one matrix of the rarest.
    `halves_differ` says that declared and stored are the two dtypes of 16 bits, one this and one that. `target` is what
    the target is computed in. `misnamed` is a value (at `misnamed_key`) that names no dtype of torch, and `meant` the
    one that it stands for, None where that is not clear.
    """

    declared: str | None
    key: str | None
    line: int | None
    contrary: str | None
    contrary_key: str | None
    stored: str | None
    kinds: tuple[str, ...]
    stray: str | None
    halves_differ: bool
    target: Known[str]
    misnamed: str | None
    misnamed_key: str | None
    meant: str | None

    @property
    def declared_is_targets(self) -> bool:
        """Whether the target is known to be computed in what the draft's config says."""
        return self.declared is not None and not isinstance(self.target, Unknown) and self.target == self.declared


def read_dtypes(config: Config, tensors: Mapping[str, TensorInfo], target: Target | None) -> Dtypes:
    """The dtypes of the draft; `tensors` are empty where the headers cannot be trusted."""
    given = [f for key in _SPELLINGS if (f := config.at(key)) is not None and isinstance(f.value, str)]
    misnamed = next((f for f in given if f.value not in _NAMES), None)
    fields = [(f, word) for f in given if (word := _word(f.value)) is not None]
    first, declared = fields[0] if fields else (None, None)
    contrary = next(((f.key, word) for f, word in fields[1:] if word != declared), (None, None))
    matrices = {
        name: _STORED[info.dtype]
        for name, info in tensors.items()
        if len(info.shape) == 2 and info.dtype in _STORED and name.endswith(".weight") and "scale" not in name
    }
    # Quantised matrices say nothing of what the rest is computed in.
    packed = any(len(i.shape) == 2 and i.dtype not in _STORED and n.endswith("weight") for n, i in tensors.items())
    kinds = tuple(kind for kind, _ in Counter(matrices.values()).most_common())
    stored = kinds[0] if kinds and not packed else None
    stray = next((name for name, kind in matrices.items() if kind == kinds[-1]), None) if len(kinds) > 1 else None
    return Dtypes(
        declared=declared,
        key=first.key if first else None,
        line=first.line if first else None,
        contrary=contrary[1],
        contrary_key=contrary[0],
        stored=stored,
        kinds=kinds if stored else (),
        stray=stray if stored else None,
        halves_differ=declared in HALVES and stored in HALVES and declared != stored,
        target=_NO_TARGET if target is None else target_dtype(target),
        misnamed=show(misnamed.value, 40) if misnamed else None,
        misnamed_key=misnamed.key if misnamed else None,
        meant=_word(misnamed.value) if misnamed else None,
    )


def target_dtype(target: Target) -> Known[str]:
    """What the target's config says, its text part before the wrapper around it."""
    for holder in (target.config, target.document):
        for key in _SPELLINGS:
            if (word := _word(holder.get(key))) is not None:
                return word
    return _NOT_GIVEN


def own_dtype(values: Sequence[Any]) -> str:
    """What an engine that goes by the draft's own config computes in; `values` are torch_dtype and dtype."""
    word = next((word for value in values if (word := _word(value)) is not None), "float32")
    return "float16" if word == "float32" else word


def _word(value: Any) -> str | None:
    """`bfloat16` for "bfloat16" and "torch.bfloat16"; None for what is no dtype."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    word = value.strip().lower().removeprefix("torch.")
    word = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32"}.get(
        word, word
    )
    return word if word in _STORED.values() else None
