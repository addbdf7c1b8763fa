"""Small drafts and targets that tests of plans tell stories about: real tensors of a trainer under a changed config."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.layers.provenance import provenance_of
from ckptdoctor.serving.layers.training import Trained, trained_boundaries

__all__ = [
    "DEPTH",
    "IDS_KEY",
    "TRAINERS",
    "draft",
    "facts_of",
    "plan",
    "target",
    "told",
    "trainer",
    "trainer_names",
    "with_ids",
]

TRAINERS = Path(__file__).resolve().parents[2] / "fixtures" / "trainers"
IDS_KEY = "eagle_aux_hidden_state_layer_ids"
_TARGET: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "tie_word_embeddings": False,
}


def trainer_names() -> list[str]:
    """The folders of drafts that trainers wrote, but for pickled ones."""
    return sorted(p.parent.name for p in TRAINERS.glob("*/model.safetensors"))


def trainer(name: str) -> Facts:
    """The facts of a trainer's draft with its target."""
    return facts_of(TRAINERS / name, TRAINERS / name / "target")


def facts_of(folder: Path, target_path: Path | None) -> Facts:
    return describe(open_checkpoint(str(folder)), read_target(str(target_path)) if target_path is not None else None)


def draft(
    folder: Path, ids: Sequence[int] | None = None, *, nested: Mapping[str, Any] | None = None, **config: Any
) -> Path:
    """A flat SGLang draft with `layers.0.*` names: the tensors of a speculators draft under a plain config.

    `nested` are further keys of eagle_config; a value of `...` takes a key out.
    """
    source = TRAINERS / "spec_eagle3_llama"
    folder.mkdir()
    shutil.copyfile(source / "model.safetensors", folder / "model.safetensors")
    inner = json.loads((source / "config.json").read_text(encoding="utf-8"))["transformer_layer_config"]
    eagle = dict(nested or {}) | ({} if ids is None else {IDS_KEY: list(ids)})
    values = inner | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 128, "eagle_config": eagle}
    values = {key: value for key, value in (values | config).items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def target(folder: Path, architecture: str, depth: int, model_type: str, *, wrapped_as: str | None = None) -> Path:
    """The config of a target; `wrapped_as` puts it into the `text_config` of a model of this type."""
    folder.mkdir()
    values = _TARGET | {"num_hidden_layers": depth, "model_type": model_type}
    if wrapped_as is not None:
        values = {"model_type": wrapped_as, "text_config": values}
    (folder / "config.json").write_text(json.dumps(values | {"architectures": [architecture]}), encoding="utf-8")
    return folder


def plan(
    facts: Facts, release: str, launch: str | None = None, engine: str = "sglang", trained_with: str | None = None
) -> LoadPlan:
    line = parse_launch(launch) if launch is not None else None
    return load_plan(facts, contracts()[engine], release, line, provenance_of(trained_with))


DEPTH = 61


def told(facts: Facts, tool: str | None = None, release: str | None = None) -> Trained:
    return trained_boundaries(facts, provenance_of(tool, release))


def with_ids(base: Facts, ids: Sequence[int] | None, writer: str) -> Facts:
    """`base` with other ids, from another writer."""
    aux = base.draft.aux
    chosen = None if ids is None else tuple(ids)
    sources = () if chosen is None else (replace(aux.sources[0], ids=chosen),)
    key = None if chosen is None else aux.key
    known = replace(base.draft.writer, id=writer)
    return replace(
        base, draft=replace(base.draft, aux=replace(aux, ids=chosen, key=key, sources=sources), writer=known)
    )
