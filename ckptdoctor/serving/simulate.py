"""The simulation: facts and one release's contract → `LoadPlan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts import Facts
from ckptdoctor.facts.config import Field
from ckptdoctor.facts.launch import Launch
from ckptdoctor.facts.sizes import claims_from
from ckptdoctor.serving.absent_layers import absent_layers
from ckptdoctor.serving.aux_count import aux_count
from ckptdoctor.serving.beside_target import symbols_beside
from ckptdoctor.serving.building import Built, build, symbols_of
from ckptdoctor.serving.capture import capture, final_state
from ckptdoctor.serving.contracts import Contract, Release
from ckptdoctor.serving.loading import Behaviour, Loaded, load
from ckptdoctor.serving.mtp import settle_mtp
from ckptdoctor.serving.other_class import builds_other, no_class
from ckptdoctor.serving.outcome import Wires, settle
from ckptdoctor.serving.plan import LoadPlan, Parameter, Refusal
from ckptdoctor.serving.provenance import NOTHING_SAID, Provenance
from ckptdoctor.serving.quantised import as_built, scheme_refusals
from ckptdoctor.serving.refusals import general_symbols, in_order, row_refusals
from ckptdoctor.serving.settings import Settings, evaluate
from ckptdoctor.serving.training import trained_boundaries
from ckptdoctor.serving.understanding import damage, understand
from ckptdoctor.serving.unread import plan_of_unread
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown

__all__ = ["load_plan"]


def load_plan(
    facts: Facts, contract: Contract, version: str, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> LoadPlan:
    """What `version` of the contract's engine does with the draft, given the launch line and what was said of the
    training (`provenance`). Pure; never raises for any draft."""
    if facts.files.kind == "other":
        return plan_of_unread(facts, contract, version)
    release = Release(contract, version)
    understood = understand(facts, release)
    if understood.beyond_limits:
        return LoadPlan(
            contract.engine, version, None, unproven=("everything: config.json is beyond the limits of this reader",)
        )
    if understood.refusal is not None or understood.entry is None:
        errors = (understood.refusal or Refusal("class", "no class for this draft"),)
        return LoadPlan(
            engine=contract.engine, version=version, model_class=None, errors=errors, outcome="refused",
            loading_executed=release.executed,
        )  # fmt: skip
    settings, entry = understood.settings, understood.entry
    other_class = builds_other(facts, entry)
    if "parameters" not in entry:
        refused = tuple(row_refusals(entry, general_symbols(facts, settings, release), settings, release))
        unread = LoadPlan(
            engine=contract.engine, version=version, model_class=str(entry["name"]), errors=refused,
            outcome="refused" if refused else "broken" if other_class else "served",
            causes=(no_class(facts, str(entry["name"])),) if other_class else (), other_class=other_class,
            unproven=(
                f"what {entry['name']} builds and loads: its parameters are not in the contract", *understood.unproven,
            ),
            remarks=understood.remarks, loading_executed=release.executed,
        )  # fmt: skip
        return settle_mtp(unread, facts, release)
    symbols = _symbols(facts, settings, entry, release)
    symbols |= symbols_beside(facts, settings, symbols, launch)
    built = build(entry["parameters"], contract.raw["layers"], release, symbols, settings)
    built = _held_before(built, release.peek(entry["behaviours"].get("initial"), {}))
    refusals = [*row_refusals(entry, symbols, settings, release), *scheme_refusals(entry, facts, release)]
    seen = as_built(_seen(facts), entry, facts, release)
    loaded = load(seen, built, _behaviour(entry, symbols, release))
    for name in _decisive(entry["behaviours"], seen, loaded, release):
        release.entry(entry["behaviours"].get(name))
    # What the parameters rest on; whose tensor is shared afterwards is another question.
    loading_executed = release.executed
    plan = LoadPlan(
        engine=contract.engine,
        version=version,
        model_class=str(entry["name"]),
        parameters=_parameters(built, loaded, entry, settings, symbols, release),
        stored=tuple(loaded.stored),
        wiring={"map": loaded.map_key},
        errors=tuple(in_order(refusals, [*damage(facts), *loaded.refusals])),
        remarks=understood.remarks,
        unproven=(*understood.unproven, *_beside(facts)),
        other_class=other_class,
        absent_layers=absent_layers(facts, symbols["depth"], built),
    )
    release.used.clear()
    captured = (
        capture(release, settings, facts.target, launch, facts.draft.block)
        if facts.draft.block or facts.draft.algorithm in ("eagle3", "peagle")
        else final_state(release, launch)
    )
    capture_executed = release.executed
    trained = trained_boundaries(facts, provenance)
    release.used.clear()
    wires = _wires(entry, settings, symbols, release, launch, facts)
    return replace(
        settle(plan, facts, captured, trained, wires),
        loading_executed=loading_executed,
        capture_executed=capture_executed,
        wiring_executed=release.executed,
        trained_certain=trained.certain,
        readings=trained.readings,
    )


def _held_before(built: Sequence[Built], otherwise: Mapping[str, str]) -> list[Built]:
    """The parameters with the initial values that this release gives them otherwise than the table says."""
    ends = tuple(otherwise.items())
    return [replace(b, initial=next((v for end, v in ends if b.name.endswith(end)), b.initial)) for b in built]


def _wires(
    entry: Mapping[str, Any],
    settings: Settings,
    symbols: Mapping[str, Any],
    release: Release,
    launch: Launch | None,
    facts: Facts,
) -> Wires:
    rows = entry["behaviours"]
    flags = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual")
    method = launch.method if launch is not None else None
    residual = release.value(rows.get("residual"))
    tied = release.value(rows.get("tied")) == "head_is_embedding" and bool(settings.get("tie_word_embeddings", False))

    def whole(symbol: str) -> int | None:
        value = symbols.get(symbol)
        return value if type(value) is int else None

    return Wires(
        fc_runs=release.value(rows.get("fc_runs")),
        residual=residual,
        tied=tied,
        map_absent=release.value(rows.get("map_absent")),
        places=release.peek(rows.get("reads"), {}),
        honoured={flag: bool(symbols.get(flag)) for flag in flags},
        aux_count=whole("K"),
        width=whole("T"),
        hidden=whole("H"),
        # A draft of captured states under a plain method gets the final state alone.
        translated=symbols.get("translated") is True,
        algorithm_matches=not (method == "eagle" and facts.draft.algorithm in ("eagle3", "peagle")),
    )


def _seen(facts: Facts) -> list[TensorInfo]:
    """The entries that an engine iterates over: of a trainer's saved state the outermost keys."""
    if facts.files.nested_in is None:
        return list(facts.tensors.values())
    return [TensorInfo(key, "", (), facts.files.names[0]) for key in (facts.files.nested_in, *facts.files.state_keys)]


def _symbols(facts: Facts, settings: Settings, entry: Mapping[str, Any], release: Release) -> dict[str, Any]:
    def size(name: str) -> Field | None:
        value = settings.get(name)
        return Field(value, name, None) if type(value) is int and 0 < value < 2**40 else None

    claims = claims_from(size).values
    target = facts.target
    depth = None if target is None or isinstance(target.num_layers, Unknown) else target.num_layers
    vocab = None if target is None or isinstance(target.vocab_size, Unknown) else target.vocab_size
    symbols = symbols_of(settings, claims, {"vocab_size": vocab, "num_layers": depth})
    behaviours = entry["behaviours"]
    symbols["K"] = aux_count(release.value(behaviours.get("aux_count")), settings)
    reads: Mapping[str, list[str]] = release.peek(behaviours.get("reads"), {})
    if any(settings.get(place) is not None for places in reads.values() for place in places):
        release.entry(behaviours.get("reads"))
    for flag in ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual"):
        symbols[flag] = bool(settings.first(reads.get(flag, []), False))
    symbols["use_aux_hidden_state"] = bool(settings.first(reads.get("use_aux_hidden_state", []), True))
    symbols |= general_symbols(facts, settings, release)
    names = [t.name for t in facts.tensors.values()]
    symbols["stored_domino"] = any(n.removeprefix("model.").startswith(("prefix_gru.", "embed_proj.")) for n in names)
    for name, since in entry.get("knows", {}).items():
        symbols[name] = release.has_reached(since)
    for name, expression in entry.get("symbols", {}).items():
        symbols[name] = evaluate(expression, symbols, settings)
    return symbols


def _behaviour(entry: Mapping[str, Any], symbols: Mapping[str, Any], release: Release) -> Behaviour:
    rows = entry["behaviours"]
    unknown_key = release.peek(rows["unknown_key"], "drop")
    skips = list(release.peek(rows.get("skips"), {}).items())
    for flag, text in release.peek(rows.get("drops_when_off"), {}).items():
        if not symbols.get(flag):
            skips.append((text, f"{flag} is off"))
    return Behaviour(
        keys=release.value(rows["keys"], "as_is"),
        aliases=release.peek(rows["aliases"], {}),
        fuse=entry["fuse"],
        map_keys=release.value(rows["map_keys"], "none"),
        map_to=release.value(rows.get("map_to")),
        unknown_key=unknown_key,
        unknown_bias=release.peek(rows.get("unknown_bias"), unknown_key),
        skips=skips,
        unknown_part=release.peek(rows.get("unknown_part")),
        loud=release.peek(rows.get("must_be_known"), []),
        layers=_layers_built(release.value(rows.get("keys_beyond_depth")), symbols),
        wrong_size=release.peek(rows.get("wrong_size"), "refuse"),
        native_names=release.peek(rows.get("native_names"), {}),
        buffers=release.peek(rows.get("buffers"), {}),
    )


def _decisive(
    rows: Mapping[str, Any], tensors: Sequence[TensorInfo], loaded: Loaded, release: Release
) -> Iterator[str]:
    """The behaviours that made a difference for these tensors: only on their evidence does a plan rest."""
    if any(s.resized or s.why == "wrong shape" for s in loaded.stored):
        yield "wrong_size"
    if any(s.why == "no such parameter" for s in loaded.stored):
        yield from ("unknown_key", "unknown_bias", "unknown_part", "must_be_known")
    for name in ("aliases", "skips", "buffers", "native_names"):
        texts = [text.strip("^.") for text in release.peek(rows.get(name), {})]
        if (name == "native_names" and texts) or any(text in t.name for text in texts for t in tensors):
            yield name
    if any(text in t.name for text in release.peek(rows.get("drops_when_off"), {}).values() for t in tensors):
        yield "drops_when_off"


def _layers_built(variant: str | None, symbols: Mapping[str, Any]) -> int | None:
    depth = symbols["depth"]
    return depth if variant == "drop" and type(depth) is int else None


def _parameters(
    built: Sequence[Built],
    loaded: Loaded,
    entry: Mapping[str, Any],
    settings: Settings,
    symbols: Mapping[str, Any],
    release: Release,
) -> tuple[Parameter, ...]:
    found = []
    for item in built:
        keys = tuple(loaded.keys.get(item.name, ()))
        missing = tuple(p for p in item.parts if p not in loaded.parts.get(item.name, set())) if keys else ()
        shared = _is_shared(item, keys, entry, settings, symbols, release)
        shape = _padded(item, release)
        found.append(Parameter(item.name, shape, item.initial, keys, missing, shared, item.used))
    return tuple(found)


def _beside(facts: Facts) -> tuple[str, ...]:
    """What lies beside the weights and is not in the contracts."""
    quant = facts.files.quant_config
    if quant is None or not quant.says_nothing:
        return ()
    return (f"what this release makes of {show(quant.file)}, which names no way of quantising",)


def _padded(item: Built, release: Release) -> tuple[int, ...] | None:
    """The shape as built: engines round the rows of embedding and head up, and fill the rest with zeros."""
    padding = release.contract.raw.get("vocab_padding")
    if padding is None or item.shape is None or item.role not in ("embedding", "head"):
        return item.shape
    rows = padding["rows"]
    return (-(-item.shape[0] // rows) * rows, *item.shape[1:])


def _is_shared(
    item: Built,
    keys: tuple[str, ...],
    entry: Mapping[str, Any],
    settings: Settings,
    symbols: Mapping[str, Any],
    release: Release,
) -> bool:
    """Whether the target's tensor takes this parameter's place after loading."""
    if item.role not in ("head", "embedding"):
        return False
    variant = release.value(entry["behaviours"].get(item.role), "own")
    hidden, width = symbols["H"], symbols["T"]
    draft_size = settings.get("draft_vocab_size")
    if variant == "target":
        return True
    if variant == "own_if_stored":
        return not keys
    if variant == "own_if_named":  # a name in the file is enough, whether the tensor was loaded or not
        return not settings.stores("embed_tokens" if item.role == "embedding" else "lm_head")
    if variant == "target_if_same_shape":
        if item.role == "head":
            return bool(symbols["TV"]) and symbols["D"] == symbols["TV"]
        return bool(hidden == width)
    if variant == "target_unless_target_hidden_size_differs":
        return bool(hidden == width) or draft_size is None
    if variant == "own_unless_draft_vocab_size_is_null":
        return draft_size is None
    return False
