"""The pages of writers and of algorithms, from the data under `rules/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ckptdoctor.facts.knowledge import Algorithm, Parameter, Sign, knowledge
from ckptdoctor.resources import rules_dir
from ckptdoctor.serving import contracts
from ckptdoctor.text import listing
from generator.markdown import code, page, table

__all__ = ["algorithms_page", "writers_page"]

_IDS = {
    "layer_output": "id k is the output of layer k, counted from 0 (boundary k + 1)",
    "boundary": "id k is boundary k: the state after k layers, 0 the embedding output",
}
_RECORDS = {
    "always": "always written into the config",
    "sometimes": "written only if the training config has them",
    "never": "never written; engines take their default",
}
_MAP = {"always": "always stored with a draft vocabulary", "mostly": "stored by most of its exporters, lost by some"}
_ORDER = {"ascending": "in ascending order of the target ids", "frequency": "most frequent token first"}
_RESIDUAL = {
    "before_norm": "taken before hidden_norm",
    "configured": "by norm_before_residual in the config: after hidden_norm if it is true, before it if not",
}
_SYMBOLS = (
    "Shapes: H width of the draft, T width of the target's states, K captured layers, I feed-forward, "
    "Q query rows, KV key and value rows, A input of the attention, hd head dimension, V vocabulary, "
    "D draft vocabulary. Latent attention: QL and KL the compressed ranks, KA rank and rotary part, "
    "MQ, KB and MV query, key-value and value rows. Names with `{…}` stand for several."
)


def writers_page() -> str:
    """What each trainer and converter writes and means."""
    parts = [
        "# Writers",
        "The trainers and converters that are recognised, how, and what they mean by what they write. A writer is "
        "named when the signs that hold weigh 3 together and more than those of any other; what rests on the name "
        "alone is never more than likely when the next one is close. From `rules/writers/`.",
    ]
    for path in sorted((rules_dir() / "writers").glob("*.yaml")):
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        signs = [Sign(row["weight"], {k: v for k, v in row.items() if k != "weight"}) for row in raw["signs"]]
        parts += [
            f"## {raw['name']}",
            f"<{raw['url']}>. Read in: {raw['read_in']}.",
            _signs(signs),
            table(("", "what it means"), _meanings(raw["conventions"])),
        ]
    return page(*parts)


def _meanings(conventions: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "ids of captured layers", f"{_IDS[conventions['aux_ids']]}; {_RECORDS[conventions['records_ids']]}"
    if "captured_by" in conventions:
        engines = listing(contracts()[engine].name for engine in conventions["captured_by"])
        yield "handed on as they are", f"to {engines}, whose release decides what they mean for some targets"
    if "aux_ids_moved_if" in conventions:
        conditions = " and ".join(_sign(kind, value) for kind, value in conventions["aux_ids_moved_if"].items())
        yield "moved by one", f"in some exports, where {conditions}"
    yield "captured by default", f"boundaries {code(_listed(conventions['default_boundaries']))} of n layers"
    yield "vocabulary map", f"{_MAP[conventions['map']]}, {_ORDER[conventions['map_order']]}"
    yield "residual of the first layer", _RESIDUAL[conventions["residual"]]
    if "rope_theta" in conventions:
        yield "rope_theta", f"{conventions['rope_theta']} in training, whatever the config says"


def algorithms_page() -> str:
    """How each kind of draft is recognised, and its parameters."""
    known = knowledge()
    parts = [
        "# Algorithms",
        "The kinds of drafts, the signs by which each is recognised, and the parameters it has. A kind is taken when "
        "its signs reach the weight it needs and outweigh those of all others. Only where the table of parameters is "
        "full can a missing one be told. From `rules/algorithms/`.",
        _SYMBOLS,
    ]
    for algorithm in known.algorithms.values():
        parts += [
            f"## {algorithm.name}",
            _facts(algorithm),
            _signs(algorithm.signs),
            _variants(algorithm),
            _parameters("of the draft", algorithm.parameters),
            _parameters("of each layer", algorithm.layer),
        ]
    parts += ["## Layers", "What the layers of all tabled drafts have beside the parameters above."]
    for kind, rows in known.attention.items():
        parts.append(_parameters({"gqa": "attention", "mla": "latent attention"}[kind], rows))
    parts.append(_parameters("feed-forward", known.feed_forward))
    parts.append(_parameters("feed-forward with experts, where the kind may have them", known.experts))
    names = [
        (code(name), entry["algorithm"], entry.get("variant", ""), entry.get("attention", ""))
        for name, entry in known.architectures.items()
    ]
    parts += ["## Class names", table(("architectures", "algorithm", "variant", "attention"), names)]
    return page(*parts)


def _facts(algorithm: Algorithm) -> str:
    words = [f"id {code(algorithm.id)}, needs {algorithm.needs}"]
    words.append("its parameters are known in full" if algorithm.tabled else "its parameters are not tabled")
    if algorithm.block:
        words.append("drafts a block in one pass")
    if algorithm.captures is not None:
        words.append(f"captures {algorithm.captures} {'state' if algorithm.captures == 1 else 'states'} by default")
    if algorithm.attention_input:
        first, later = algorithm.attention_input["first"], algorithm.attention_input["later"]
        words.append(f"the attention takes {code(first)} in the first layer and {code(later)} in later ones")
    return "; ".join(words) + "."


def _variants(algorithm: Algorithm) -> str:
    rows = [(code(name), code(pattern.pattern)) for name, pattern in algorithm.variants]
    return table(("variant", "a tensor like"), rows)


def _parameters(title: str, parameters: Iterable[Parameter]) -> str:
    rows = [
        (code(p.name), code(" × ".join(p.shape)) if p.shape else "", _presence(p), p.group or "") for p in parameters
    ]
    return table((f"parameter {title}", "shape", "must be there", "set"), rows)


def _presence(parameter: Parameter) -> str:
    if parameter.judged:
        return "by rules of its own"
    where = {"first": " in the first layer", "later": " in later layers"}.get(parameter.layers, "")
    words = f"optional{where}" if parameter.optional else f"yes{where}"
    if parameter.if_declared:
        words += f", if the config has {code(parameter.if_declared)}"
    for flag, value in (parameter.unless or {}).items():
        words += f", unless {code(f'{flag}: {str(value).lower()}')}"
    return words


def _signs(signs: Iterable[Sign]) -> str:
    rows = []
    for sign in signs:
        words = " and ".join(_sign(kind, value) for kind, value in sign.conditions.items())
        rows.append((str(sign.weight), words))
    return table(("weight", "sign"), rows)


def _sign(kind: str, value: Any) -> str:
    several = value if isinstance(value, list) else [value]
    patterns = " and ".join(code(one) for one in several)
    if kind in ("config_equals", "config_matches"):
        verb = "is" if kind == "config_equals" else "matches"
        return " and ".join(f"{code(key)} {verb} {code(wanted)}" for key, wanted in value.items())
    return {
        "tensor": f"a tensor matches {patterns}",
        "no_tensor": f"no tensor matches {patterns}",
        "config": f"the config has {patterns}",
        "no_config": f"the config lacks {patterns}",
        "architecture": f"architectures matches {patterns}",
        "attention_input": f"an attention takes {value} × H",
        "fc_input": f"fc takes {value} × H",
        "file": f"a file beside it matches {patterns}",
        "state_keys": f"a trainer's saved state with {patterns}",
        "container": f"the weights are a {value}",
        "algorithm": f"the algorithm is {patterns}",
    }[kind]


def _listed(values: Iterable[object]) -> str:
    return f"[{', '.join(str(value) for value in values)}]"
