"""The simulation: facts and one release's contract → `LoadPlan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts import Facts
from ckptdoctor.facts.config import Field
from ckptdoctor.facts.draft.sizes import claims_from
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.config.config_kinds import uncertain_sizes
from ckptdoctor.serving.config.other_class import builds_other, no_class
from ckptdoctor.serving.config.understanding import Understood, understand
from ckptdoctor.serving.contract.contracts import Contract, Reader, Release
from ckptdoctor.serving.contract.releases import remark_on
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.faulty import plan_or_fault
from ckptdoctor.serving.layers.aux_count import aux_count
from ckptdoctor.serving.layers.capture import capture, final_state
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.serving.layers.training import trained_boundaries
from ckptdoctor.serving.outcome import Wires, settle, takes_states
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.parameters.absent_layers import absent_layers
from ckptdoctor.serving.parameters.beside_target import symbols_beside
from ckptdoctor.serving.parameters.building import MAX_LAYERS, Built, build, held_before, layers_beyond, symbols_of
from ckptdoctor.serving.parameters.loading import Behaviour, Loaded, load
from ckptdoctor.serving.parameters.mtp import mtp_row, settle_mtp
from ckptdoctor.serving.parameters.quantised import as_built, scheme_refusals
from ckptdoctor.serving.parameters.sharing import is_shared, padded
from ckptdoctor.serving.plan import LoadPlan, Parameter, Refusal
from ckptdoctor.serving.refusals import damage, general_symbols, in_order, row_refusals
from ckptdoctor.serving.remembered import remembered
from ckptdoctor.serving.unread import plan_of_unread
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["load_plan"]

_FLAGS = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual")


def load_plan(
    facts: Facts, contract: Contract, version: str, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> LoadPlan:
    """What a release does with the draft, given a launch line and what was said of the training. Never raises."""
    release = Release(contract, version)
    known = remembered(facts, contract, launch, provenance)
    plan = known.of(release, lambda one: plan_or_fault(one, lambda at: _plan(facts, at, launch, provenance)))
    remark = remark_on(release)
    return plan if remark is None else replace(plan, release_remark=remark, remarks=(remark, *plan.remarks))


def _plan(facts: Facts, release: Release, launch: Launch | None, provenance: Provenance) -> LoadPlan:
    contract = release.contract
    if facts.files.kind == "other":
        return plan_of_unread(facts, contract, release.version)
    understood = understand(facts, release)
    if understood.refusal is not None or understood.entry is None:
        errors = () if understood.refusal is None else (understood.refusal,)
        return LoadPlan(
            engine=contract.engine, version=release.version, model_class=None, errors=errors, opens=understood.opens,
            outcome=Outcome.REFUSED if errors else Outcome.UNKNOWN, loading_executed=understood.evidence.executed,
        )  # fmt: skip
    if "parameters" not in understood.entry:
        symbols = general_symbols(facts, understood.settings, release, launch)
        return _without_table(facts, release, understood, symbols)
    return _with_table(facts, release, understood, launch, provenance)


def _without_table(
    facts: Facts, release: Release, understood: Understood, symbols: Mapping[str, Any], why: Reason | None = None
) -> LoadPlan:
    """The plan for a class of which no parameter is built, because of `why` or since the contract has none: what is
    refused whatever they are."""
    entry = understood.entry or {}
    reader = release.reader()
    other_class = builds_other(facts, entry, mtp_row(str(entry["name"]), release))
    refused, opens = row_refusals(entry, symbols, understood.settings, reader)
    unread = why or Reason("open", "class_without_table", {"name": show(str(entry["name"]))})
    plan = LoadPlan(
        engine=release.contract.engine, version=release.version, model_class=str(entry["name"]), errors=tuple(refused),
        outcome=Outcome.REFUSED if refused else Outcome.BROKEN if other_class else Outcome.UNKNOWN,
        causes=(no_class(facts, str(entry["name"])),) if other_class else (), other_class=other_class,
        opens=(unread, *understood.opens, *opens), remarks=understood.remarks,
        loading_executed=(understood.evidence + reader.evidence).executed,
    )  # fmt: skip
    return settle_mtp(plan, facts, release, understood.settings)


def _with_table(
    facts: Facts, release: Release, understood: Understood, launch: Launch | None, provenance: Provenance
) -> LoadPlan:
    settings, entry, contract = understood.settings, understood.entry or {}, release.contract
    loading = release.reader()
    symbols = _symbols(facts, settings, entry, loading, launch)
    symbols |= symbols_beside(facts, settings, symbols, launch)
    if (layers := layers_beyond(entry["parameters"], release, symbols, settings)) is not None:
        why = Reason("open", "layers_beyond", {"count": show(layers, 40), "limit": MAX_LAYERS})
        return _without_table(facts, release, understood, symbols, why)
    built, open_parameters = build(entry["parameters"], contract.raw["layers"], release, symbols, settings)
    built = held_before(built, release.peek(entry["behaviours"].get("initial"), {}))
    refusals, open_refusals = row_refusals(entry, symbols, settings, loading)
    refusals += scheme_refusals(entry, facts, loading)
    seen = as_built(_seen(facts), entry, facts, loading)
    loaded = load(seen, built, _behaviour(entry, symbols, loading))
    for name in _decisive(entry["behaviours"], seen, loaded, release):
        loading.value(entry["behaviours"].get(name))
    wiring = release.reader()
    parameters = _parameters(built, loaded, entry, settings, symbols, wiring)
    plan = LoadPlan(
        engine=contract.engine,
        version=release.version,
        model_class=str(entry["name"]),
        parameters=parameters,
        stored=tuple(loaded.stored),
        wiring={"map": loaded.map_key},
        errors=tuple(in_order(refusals, [*damage(facts), *_sure(loaded, symbols, open_parameters)])),
        remarks=understood.remarks,
        opens=(*understood.opens, *open_parameters, *open_refusals, *_open_sizes(parameters, symbols), *_beside(facts)),
        other_class=builds_other(facts, entry),
        absent_layers=absent_layers(facts, symbols["depth"], built),
    )
    captured = (
        capture(release, settings, facts.target, launch, facts.draft.algorithm, facts.draft.block)
        if takes_states(facts)
        else final_state(release, launch)
    )
    trained = trained_boundaries(facts, provenance)
    wires = _wires(entry, settings, symbols, wiring, launch, facts)
    return replace(
        settle(plan, facts, captured, trained, wires),
        loading_executed=(understood.evidence + loading.evidence).executed,
        capture_executed=captured.evidence.executed,
        wiring_executed=wiring.evidence.executed,
        trained_certain=trained.certain,
        readings=trained.readings,
    )


def _sure(loaded: Loaded, symbols: Mapping[str, Any], opens: Sequence[Reason]) -> list[Refusal]:
    """The loud errors of the load that hold whatever is open: which names are known depends on what is built."""
    if type(symbols["depth"]) is not int:
        return []
    return [refusal for refusal in loaded.refusals if not opens or refusal.about != "name"]


def _open_sizes(parameters: Sequence[Parameter], symbols: Mapping[str, Any]) -> Iterator[Reason]:
    """Parameters of a size that the config does not say: whether the stored tensor fits is then open."""
    unsized = tuple(p.name for p in parameters if p.shape is None and p.keys)
    if unsized:
        yield Reason("open", "shape", {}, unsized)
    if isinstance(symbols["depth"], Unknown):
        yield Reason("open", "depth")


def _wires(
    entry: Mapping[str, Any],
    settings: Settings,
    symbols: Mapping[str, Any],
    reader: Reader,
    launch: Launch | None,
    facts: Facts,
) -> Wires:
    rows = entry["behaviours"]
    method = launch.method if launch is not None else None
    residual = reader.value(rows.get("residual"))
    tied = reader.value(rows.get("tied")) == "head_is_embedding" and bool(settings.get("tie_word_embeddings", False))
    whole = {name: value for name, value in symbols.items() if type(value) is int}
    return Wires(
        fc_runs=reader.value(rows.get("fc_runs")),
        residual=residual,
        tied=tied,
        map_absent=reader.value(rows.get("map_absent")),
        places=reader.peek(rows.get("reads"), {}),
        honoured={flag: bool(symbols.get(flag)) for flag in _FLAGS},
        aux_count=whole.get("K"),
        width=whole.get("T"),
        hidden=whole.get("H"),
        # A draft of captured states under a plain method gets the final state alone.
        translated=symbols.get("translated") is True,
        algorithm_matches=not (method == "eagle" and facts.draft.kind.fuses_states),
    )


def _seen(facts: Facts) -> list[TensorInfo]:
    """The entries that an engine iterates over: of a trainer's saved state the outermost keys."""
    if facts.files.nested_in is None:
        return list(facts.tensors.values())
    return [TensorInfo(key, "", (), facts.files.names[0]) for key in (facts.files.nested_in, *facts.files.state_keys)]


def _symbols(
    facts: Facts, settings: Settings, entry: Mapping[str, Any], reader: Reader, launch: Launch | None
) -> dict[str, Any]:
    def size(name: str) -> Field | None:
        value = settings.get(name)
        return Field(value, name, None) if type(value) is int and 0 < value < 2**40 else None

    claims = claims_from(size).values
    target = facts.target
    depth = None if target is None else known_or(target.num_layers, None)
    vocab = None if target is None else known_or(target.vocab_size, None)
    symbols = symbols_of(settings, claims, {"vocab_size": vocab, "num_layers": depth})
    symbols |= dict.fromkeys(uncertain_sizes(settings), Unknown("a size in config.json that is none"))
    behaviours = entry["behaviours"]
    symbols["K"] = aux_count(reader.value(behaviours.get("aux_count")), settings)
    reads: Mapping[str, list[str]] = reader.peek(behaviours.get("reads"), {})
    if any(settings.get(place) is not None for places in reads.values() for place in places):
        reader.value(behaviours.get("reads"))
    for flag in _FLAGS:
        symbols[flag] = bool(settings.first(reads.get(flag, []), False))
    symbols["use_aux_hidden_state"] = bool(settings.first(reads.get("use_aux_hidden_state", []), True))
    symbols |= general_symbols(facts, settings, reader.release, launch)
    names = [t.name for t in facts.tensors.values()]
    symbols["stored_domino"] = any(n.removeprefix("model.").startswith(("prefix_gru.", "embed_proj.")) for n in names)
    for name, since in entry.get("knows", {}).items():
        symbols[name] = reader.has_reached(since)
    for name, expression in entry.get("symbols", {}).items():
        symbols[name] = evaluate(expression, symbols, settings)
    return symbols


def _behaviour(entry: Mapping[str, Any], symbols: Mapping[str, Any], reader: Reader) -> Behaviour:
    rows = entry["behaviours"]
    unknown_key = reader.peek(rows["unknown_key"], "drop")
    skips = list(reader.peek(rows.get("skips"), {}).items())
    for flag, text in reader.peek(rows.get("drops_when_off"), {}).items():
        if not symbols.get(flag):
            skips.append((text, f"{flag} is off"))
    return Behaviour(
        keys=reader.value(rows["keys"], "as_is"),
        aliases=reader.peek(rows["aliases"], {}),
        fuse=entry["fuse"],
        map_keys=reader.value(rows["map_keys"], "none"),
        map_to=reader.value(rows.get("map_to")),
        unknown_key=unknown_key,
        unknown_bias=reader.peek(rows.get("unknown_bias"), unknown_key),
        skips=skips,
        unknown_part=reader.peek(rows.get("unknown_part")),
        loud=reader.peek(rows.get("must_be_known"), []),
        layers=_layers_built(reader.value(rows.get("keys_beyond_depth")), symbols),
        wrong_size=reader.peek(rows.get("wrong_size"), "refuse"),
        native_names=reader.peek(rows.get("native_names"), {}),
        buffers=reader.peek(rows.get("buffers"), {}),
        experts=reader.value(entry.get("experts"), {}),
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
    reader: Reader,
) -> tuple[Parameter, ...]:
    found = []
    for item in built:
        keys = tuple(loaded.keys.get(item.name, ()))
        missing = tuple(p for p in item.parts if p not in loaded.parts.get(item.name, set())) if keys else ()
        shared = is_shared(item, keys, entry, settings, symbols, reader)
        shape = padded(item, reader.release)
        found.append(Parameter(item.name, shape, item.initial, keys, missing, shared, item.used))
    return tuple(found)


def _beside(facts: Facts) -> tuple[Reason, ...]:
    """What lies beside the weights and is not in the contracts."""
    quant = facts.files.quant_config
    if quant is None or not quant.says_nothing:
        return ()
    return (Reason("open", "quant_file", {"file": show(quant.file)}),)
