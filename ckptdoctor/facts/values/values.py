"""Values of weights: signs that they are not what training produced. Read only when asked for (--deep).

Every byte is read once, in small pieces (see `values_reading`), and what was measured of the same bytes before is not
read again: a repair surveys the same weights several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.checkpoint.quiet import quiet
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.target_weights import TargetWeights, find_target_weights
from ckptdoctor.facts.values.against import against_of, pair_names
from ckptdoctor.facts.values.changes import Against
from ckptdoctor.facts.values.damage import Damage, damage_of
from ckptdoctor.facts.values.pairs import Likeness, Watch, likeness
from ckptdoctor.facts.values.reading import Reader, readable
from ckptdoctor.facts.values.roles import Weight, weights_of, zero_centred
from ckptdoctor.facts.values.statistics import Statistics, measure
from ckptdoctor.facts.values.target import (
    EmbeddingComparison,
    OwnEmbedding,
    OwnHead,
    embedding_comparison,
    own_embedding,
    own_head,
)
from ckptdoctor.facts.values.value_signs import Part, Untouched, parts_of, untouched
from ckptdoctor.unknown import Known, Unknown, known_or

__all__ = ["Values", "measure_values"]

_NO_HEADERS = Unknown("weight files with sound headers")
_NO_TARGET = Unknown("the weights of the target, as .safetensors (--target PATH)")


@dataclass(frozen=True)
class Values:
    """What the values of the weights show.

    `file` is the first file of the weights. `read` counts the tensors that were read, `unread` names weights whose
    values could not be (packed, or damaged).
    `parts` are the layers (and `draft`: what stands outside of them) with a sign that they were never trained,
    `untrained` those with both independent signs; `untouched_matrices` and `untouched_norms` are in parts with one sign
    alone. `embedding_untouched` is the draft's embedding if it is an initialiser's and there is no target to compare it
    with. `embedding` and `head` compare with the target (None: the draft has none, or the two do not fit), `against`
    with the other copy (None: none was given).
    """

    file: str
    read: int
    unread: tuple[str, ...]
    parts: tuple[Part, ...]
    embedding_untouched: Untouched | None
    damage: Damage
    embedding: Known[OwnEmbedding | None]
    head: Known[OwnHead | None]
    against: Against | None

    @property
    def untrained(self) -> tuple[Part, ...]:
        """The parts with two independent signs."""
        return tuple(part for part in self.parts if part.signs > 1)

    @property
    def all_untrained(self) -> bool:
        """Whether no layer and no norm shows any training: nothing was loaded before saving, or nothing trained."""
        return bool(self.untrained) and all(
            len(part.norms) == part.norm_count and len(part.matrices) == part.matrix_count for part in self.parts
        )

    @property
    def untouched_norms(self) -> tuple[Part, ...]:
        """The parts of which the norms are the only sign."""
        return tuple(part for part in self.parts if part.norms and not part.matrices)

    @property
    def untouched_matrices(self) -> tuple[Untouched, ...]:
        """The random matrices of parts whose norms are no sign, and the embedding if it is random."""
        found = tuple(matrix for part in self.parts if not part.norms for matrix in part.matrices)
        return found if self.embedding_untouched is None else (*found, self.embedding_untouched)

    @property
    def random_names(self) -> tuple[str, ...]:
        """The names of `untouched_matrices`."""
        return tuple(matrix.name for matrix in self.untouched_matrices)

    @property
    def embedding_lost(self) -> bool:
        """Whether the target's weights show that the embedding is random; False where they were not given."""
        return isinstance(self.embedding, OwnEmbedding) and self.embedding.kind == "lost"

    @property
    def weights_lost(self) -> bool:
        """Whether the other copy shows that weights were lost; False where none was given."""
        return self.against is not None and bool(self.against.lost)

    @property
    def untrained_names(self) -> tuple[str, ...]:
        """The parts of `untrained` in words."""
        return tuple(part.called for part in self.untrained)

    @property
    def untrained_norms(self) -> tuple[str, ...]:
        """The norms of `untrained` that are at their start."""
        return tuple(name for part in self.untrained for name in part.norms)

    @property
    def untrained_matrices(self) -> tuple[Untouched, ...]:
        """The random matrices of `untrained`."""
        return tuple(matrix for part in self.untrained for matrix in part.matrices)

    @property
    def untrained_matrix_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(matrix.name for matrix in self.untrained_matrices)


@quiet
def measure_values(
    checkpoint: Checkpoint, draft: Draft, target: Target | None, against: Checkpoint | None, known: Knowledge
) -> Known[Values]:
    """Read every weight of `checkpoint` once, in small pieces. Unknown for damaged headers. Never raises."""
    if not checkpoint.names_sound:
        return _NO_HEADERS
    words = known.words["values"]
    weights = weights_of(checkpoint, known, tabled=draft.tabled)
    old = weights_of(against, known, tabled=draft.tabled) if against is not None and against.names_sound else None
    pairs = pair_names(weights, old) if old is not None else {}
    config = _flat(checkpoint)
    centred = zero_centred((draft.model_type, config.get("model_type")), known)
    target_weights = _target_weights(target)
    embedding = next((w for w in weights.values() if w.role == "embedding"), None)
    compared = embedding_comparison(checkpoint, embedding, target_weights, words)
    measured: dict[str, Statistics] = {}
    likenesses: dict[str, Likeness] = {}
    unread: list[str] = []
    reader = Reader(checkpoint)
    for name, weight in weights.items():
        if weight.role == "skip":
            continue
        watches = compared.watches if compared is not None and weight is embedding else []
        partner = pairs.get(name)
        other: Watch | None = None
        if partner is not None and against is not None:
            if readable(weight.info) and readable(partner.info):
                other = Watch(weight.info, partner.info, Reader(against), words["alike"])
                watches.append(other)
            else:
                first, second = (checkpoint, weight.info, reader), (against, partner.info, reader)
                likenesses[name] = likeness(first, second, words["alike"])
        rows = weight.role in ("head", "embedding")
        seen = measure(checkpoint, weight.info, reader, compare_rows=rows, watches=watches)
        if seen is None:
            unread.append(weight.info.name)
        else:
            measured[name] = seen
        if other is not None:
            likenesses[name] = other.done() if seen is not None else Likeness("unread")
    parts = parts_of(weights.values(), measured, config, words, zero_centred=centred)
    random = _random_embedding(embedding, measured, config, words)
    owned = _owned(embedding, measured, compared, random)
    names = {m.name for part in parts for m in part.matrices} | {n for part in parts for n in part.norms}
    return Values(
        file=next(iter(checkpoint.files), ""),
        read=len(measured),
        unread=tuple(unread),
        parts=parts,
        embedding_untouched=random if owned is None else None,
        damage=damage_of(
            weights.values(), measured, config, states=_states(draft), reduced=_reduced(weights, draft),
            zero_centred=centred, repeated_share=words["repeated_share"],
        ),
        embedding=_NO_TARGET if target_weights is None else owned,
        head=_NO_TARGET if target_weights is None else _head(checkpoint, weights, target_weights),
        against=None if against is None or old is None else against_of(
            checkpoint, against, weights, old, likenesses, measured,
            [n for n, w in weights.items() if w.info.name in names or (random is not None and w is embedding)], words,
        ),
    )  # fmt: skip


def _flat(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The config with the fields of a nested description of the layers where it has none of its own."""
    config: Mapping[str, Any] = checkpoint.config.object if checkpoint.config is not None else {}
    nested = [config.get(key) for key in ("transformer_layer_config", "text_config", "eagle_config")]
    merged: dict[str, Any] = {}
    for inner in reversed([n for n in nested if isinstance(n, dict)]):
        merged.update(inner)
    return {**merged, **config}


def _target_weights(target: Target | None) -> TargetWeights | None:
    if target is None or target.root is None:
        return None
    try:
        return find_target_weights(str(target.root))
    except (CannotExamineError, OSError):
        return None


def _random_embedding(
    embedding: Weight | None, measured: Mapping[str, Statistics], config: Mapping[str, Any], words: Mapping[str, Any]
) -> Untouched | None:
    if embedding is None or embedding.canonical not in measured:
        return None
    return untouched(embedding, measured[embedding.canonical], config, words)


def _owned(
    embedding: Weight | None,
    measured: Mapping[str, Statistics],
    compared: EmbeddingComparison | None,
    random: Untouched | None,
) -> OwnEmbedding | None:
    if embedding is None or embedding.canonical not in measured:
        return None
    return own_embedding(embedding, measured[embedding.canonical], compared, random)


def _head(checkpoint: Checkpoint, weights: Mapping[str, Weight], target: TargetWeights) -> OwnHead | None:
    d2t = next((w.info.name for n, w in weights.items() if n == "d2t"), None)
    return own_head(checkpoint, next((w for w in weights.values() if w.role == "head"), None), target, d2t)


def _states(draft: Draft) -> int | None:
    fc = known_or(draft.fc, None)
    return None if fc is None else fc.states


def _reduced(weights: Mapping[str, Weight], draft: Draft) -> bool:
    """Whether the head has rows for chosen tokens alone."""
    head = next((w for w in weights.values() if w.role == "head"), None)
    if head is None or draft.vocab_size is None:
        return "d2t" in weights
    return head.info.shape[0] < draft.vocab_size
