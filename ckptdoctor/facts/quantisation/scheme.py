"""A declared scheme of quantisation: its method, and which modules it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ckptdoctor.facts.quantisation.patterns import Named, named

__all__ = ["Method", "Scheme", "engine_name", "fused_name"]


_CLASSES = frozenset({"Linear", "ReplicatedLinear", "ColumnParallelLinear", "RowParallelLinear", "LinearBase"})


@dataclass(frozen=True)
class Method:
    """A row of `methods` in rules/facts/quantisation.yaml."""

    id: str
    lists: tuple[str, ...]
    append: str | None
    compares: Mapping[str, str]
    head: str
    reads_headers: bool = False
    at_load: bool = False
    applies: str = "linear"
    judged: bool = True
    whole: str | None = None

    @property
    def form(self) -> str:
        """What the lists are: `negative` patterns, numbers of bits (`bits16`), or `names` of modules."""
        return next((style for style in self.compares.values() if style in ("negative", "bits16")), "names")


@dataclass(frozen=True)
class Scheme:
    """A scheme that a config declares.

    `method` is the id of the way of quantising (rules/facts/quantisation.yaml), `unknown` for a name that no release
    read knows and `missing` where none is given; `declared` is quant_method as it stands, `name` the way for people
    (`modelopt NVFP4`). `place` is the dotted key of the object in `file` (`""`: the whole file) and `line` where it
    begins. `weights` says whether weights are quantised at all; False for a cache alone. `list_key` is the list that
    is read, `entries` what it names. `targets` are the modules that the scheme is for, None for all; `prefixes` the
    beginnings of their names, None for all. `bits`, `group` and `block` are None where the scheme has several or says
    nothing; a group of -1 is a whole row. `opaque`: an entry could not be compared with names, so nothing is known of
    plain modules.
    """

    method: str
    declared: str | None
    name: str
    file: str
    place: str
    line: int | None
    weights: bool
    list_key: str | None
    entries: tuple[str, ...]
    targets: tuple[str, ...] | None
    prefixes: tuple[str, ...] | None
    bits: int | None
    group: int | None
    block: tuple[int, int] | None
    quantises_head: bool
    opaque: bool
    rules: Method = field(repr=False)

    @property
    def at_load(self) -> bool:
        """Whether engines quantise plain weights of this scheme while loading."""
        return self.rules.at_load

    @property
    def reads_headers(self) -> bool:
        """Whether vLLM leaves alone what is stored plain, whatever the lists say."""
        return self.rules.reads_headers

    @property
    def where(self) -> str:
        """The file, and the key in it if the scheme is not the whole file."""
        return f"{self.place} of {self.file}" if self.place else self.file

    def spared_by(self, module: str) -> tuple[str, ...]:
        """The engines (ids of contracts) in which the lists leave `module` alone, by its name as it stands here.

        Raises `TooMuchError` when that takes more steps than any list in use.
        """
        if self._targets is not None and not any(self._targets.names(n) for n in _called(module)):
            return tuple(self.rules.compares)
        if self._prefixes is not None and not self._prefixes.names(module):
            return tuple(self.rules.compares)
        return tuple(engine for engine, style in self.rules.compares.items() if self._named[style].names(module))

    @cached_property
    def _named(self) -> dict[str, Named]:
        return {style: named(self.entries, style) for style in dict.fromkeys(self.rules.compares.values())}

    @cached_property
    def _targets(self) -> Named | None:
        return None if self.targets is None else named(self.targets, "suffix")

    @cached_property
    def _prefixes(self) -> Named | None:
        return None if self.prefixes is None else named(self.prefixes, "prefix")


def engine_name(name: str) -> str:
    """Experts are one module in engines: `mlp.experts.0.up_proj` is part of `mlp.experts`."""
    match = re.match(r"^(.*\bexperts)(?:\.\d+)?\.[a-z0-9_]+$", name)
    return match.group(1) if match else name


def fused_name(name: str) -> str | None:
    """The name of the parameter that engines make of this one and others, as lists may call it."""
    module, _, last = name.rpartition(".")
    if last in ("q_proj", "k_proj", "v_proj"):
        return f"{module}.qkv_proj"
    return f"{module}.gate_up_proj" if last in ("gate_proj", "up_proj") else None


def _called(module: str) -> tuple[str, ...]:
    """The names under which a list of quantised modules may have this one: ModelOpt names the module that engines build
    (`mlp.experts`, `self_attn.qkv_proj`) or its parts, and SGLang looks for the former first (modelopt_quant.py
    0.5.23:978)."""
    fused = fused_name(module)
    return (module, engine_name(module), *((fused,) if fused is not None else ()))
