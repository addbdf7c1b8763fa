"""The launch line: what the command that starts a server says about speculation.

What is known of each engine's options stands in rules/launch. Unknown words are left alone; nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ckptdoctor.errors import UsageError
from ckptdoctor.launch.deviations import Deviations
from ckptdoctor.launch.engines import EngineLine
from ckptdoctor.launch.finding import chosen_command, release_in, speaks_of_drafts
from ckptdoctor.launch.options import container_environment, options_of, with_files
from ckptdoctor.launch.source import LaunchSource
from ckptdoctor.limits import LAUNCH_LINE

__all__ = ["Launch", "launch_of", "parse_launch"]

_LAYERS_LIMIT = 1024


@dataclass(frozen=True)
class Launch:
    """What a launch line says.

    `engine` is the id of its engine (`sglang`, `vllm`, `tensorrt-llm`, …), `engine_name` its name; None when the line
    does not tell. `release` is the one that a container image names. `method` is the algorithm as the engine
    understands it: `eagle3`, `eagle`, `dflash`, `dspark`, `mtp`, … in lower case, from `method_word` as it is written;
    None when the line leaves it to the engine. `steps`, `topk` and `draft_tokens` are the numbers of the draft,
    `block_size` the block that the line asks for. `cuda_graphs` is False when the line turns them off. `token_map` is
    the file of SGLang's --speculative-token-map, `tensor_parallel` the number of parts that each weight is cut into.
    `context_length` is the longest text of the server, `draft_context_length` that of the draft; `longer_context`
    tells that the environment lets in more than the models allow. `quantization` and `load_format` are words for the
    target, with `draft_` for the draft. `layers_to_capture` are target layers in TensorRT-LLM's count. `speculates`
    says whether the line says anything of speculation at all; `open_fields` are those that hold a shell variable.
    `deviations` are known once the line was held against a draft.
    """

    text: str
    engine: str | None = None
    engine_name: str | None = None
    release: str | None = None
    method: str | None = None
    method_word: str | None = None
    target_path: str | None = None
    draft_path: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    block_size: int | None = None
    cuda_graphs: bool = True
    two_batch_overlap: bool = False
    pipeline_size: int = 1
    tensor_parallel: int = 1
    data_parallel: int = 1
    draft_tensor_parallel: int | None = None
    runner: str | None = None
    token_map: str | None = None
    context_length: int | None = None
    draft_context_length: int | None = None
    longer_context: bool = False
    dtype: str | None = None
    quantization: str | None = None
    draft_quantization: str | None = None
    load_format: str | None = None
    draft_load_format: str | None = None
    page_size: int | None = None
    attention_backend: str | None = None
    max_requests: int | None = None
    parallel_drafting: bool = False
    local_argmax: bool = False
    adaptive: bool = False
    spec_v2: bool = False
    trusts_code: bool = False
    layers_to_capture: tuple[int, ...] | None = None
    speculates: bool = False
    deviations: Deviations = field(default_factory=Deviations)
    open_fields: frozenset[str] = frozenset()
    source: LaunchSource = field(default_factory=LaunchSource, repr=False, compare=False)


def parse_launch(text: str) -> Launch:
    """Read a launch line. Raises `UsageError` when it cannot be split into words, or its JSON cannot be read."""
    return launch_of(text)


def launch_of(
    text: str,
    *,
    script: bool = False,
    form: str = "line",
    environment: Mapping[str, str] | None = None,
    config_of: Callable[[str], Mapping[str, Any] | None] | None = None,
) -> Launch:
    """Read the engine's command in shell text.

    With `script` line ends and comments count; `form` is how a file held it (see `LaunchSource`), `environment` what it
    sets beside it. `config_of` gives the content of a file of options that the command names, where it is at hand.
    Raises `UsageError`.
    """
    if len(text) > (LAUNCH_LINE * 16 if script else LAUNCH_LINE):
        raise UsageError("the launch line is longer than any command")
    found, line = chosen_command(text, script)
    if found is None:
        return Launch(text=text, source=LaunchSource(text=text, end=len(text), form=form))
    command, place = found
    words = command.words
    options = options_of(words, line)
    if line is not None and config_of is not None:
        options = with_files(options, line, config_of)
    start, end = (words[0].start, words[-1].end) if words else (0, 0)
    source = LaunchSource(place, start, end, options, line, form)
    return _launch(text, source, {**(environment or {}), **command.environment}, release_in(text, line))


def _launch(text: str, source: LaunchSource, environment: Mapping[str, str], release: str | None) -> Launch:
    line = source.engine
    if line is None:
        return Launch(text=text, source=source)
    values: dict[str, Any] = {}
    is_open: set[str] = set()
    for given in source.options.given:
        option = line.options.get(given.name)
        if given.member is None and option is not None:
            _take(values, is_open, option.field, option.kind, given.value, option.value, given.open)
    held_open = any(given.open for given in source.options.given if given.name in line.object_names)
    for name, value in source.options.object.items():
        member = line.members.get(name)
        if member is not None:
            _take(
                values,
                is_open,
                member.field,
                member.kind,
                value,
                member.value,
                isinstance(value, str) and "$" in value and held_open,
            )
    environment = {**environment, **container_environment(source.options)}
    for name, row in line.raw.get("environment", {}).items():
        if name in environment:
            said = environment[name].strip()
            value = row["values"].get(said) if "values" in row else said.lower() in ("1", "true", "yes", "y", "on", "t")
            if value is not None:
                values[row["field"]] = value
    if source.options.object_open:
        is_open |= {option.field for option in line.members.values()}
    _positional(values, source, line)
    if values.get("method_word") is None and "method_word" not in is_open:
        joined = " ".join(word.text for word in source.options.plain)
        joined += " " + " ".join(g.value for g in source.options.given if g.written == "-m")
        rows = line.raw.get("default_method", ())
        values["method_word"] = next((row["method"] for row in rows if re.search(row["words"], joined)), None)
    word = values.get("method_word")
    method = line.method(word) if word is not None else None
    names = {option.name for option in source.options.given}
    known = {f.name for f in fields(Launch)}
    # Sizes of zero and less are none.
    sizes = {name: 1 for name in ("pipeline_size", "tensor_parallel", "data_parallel") if (values.get(name) or 0) < 1}
    return Launch(
        **{name: value for name, value in {**values, **sizes}.items() if name in known and value is not None},
        text=text,
        engine=line.engine,
        engine_name=line.name,
        release=release,
        method=method.method if method is not None else word.lower() if word is not None else None,
        speculates=bool(source.options.object) or source.options.object_open or speaks_of_drafts(line, names),
        open_fields=frozenset(is_open),
        source=source,
    )


def _take(
    values: dict[str, Any], is_open: set[str], name: str, kind: str, value: Any, flag: Any, variable: bool
) -> None:
    """Put one value into its field; one that still holds a variable leaves the field open."""
    if variable and kind != "flag":
        values.pop(name, None)
        is_open.add(name)
        return
    is_open.discard(name)
    if kind == "flag":
        if not isinstance(value, str) or value.lower() not in ("false", "0"):
            values[name] = flag
    elif kind == "number":
        values[name] = _whole(value)
    elif kind == "switch":
        values[name] = value is True or (isinstance(value, str) and value.lower() in ("true", "1", "yes"))
    elif kind == "numbers":
        values[name] = _numbers(value)
    else:
        values[name] = value if isinstance(value, str) and value else None


def _positional(values: dict[str, Any], source: LaunchSource, line: EngineLine) -> None:
    """The target that stands by itself: `vllm serve MODEL`."""
    name = line.raw.get("positional")
    if name is None or values.get(name) is not None:
        return
    seen = False
    for word in source.options.plain:
        if seen and word.text not in ("serve", "bench", "throughput", "latency", "eval"):
            if not word.open:
                values[name] = word.text
            return
        seen = seen or line.runs(word.text)


def _numbers(value: Any) -> tuple[int, ...] | None:
    items = (
        value
        if isinstance(value, list)
        else re.split(r"[\s,]+", value.strip("[]{} "))
        if isinstance(value, str)
        else None
    )
    if items is None or len(items) > _LAYERS_LIMIT:
        return None
    numbers = [int(i) if isinstance(i, str) and re.fullmatch(r"-?\d{1,8}", i) else i for i in items]
    whole = tuple(n for n in numbers if type(n) is int and abs(n) < 10**6)
    return whole if whole and len(whole) == len(numbers) else None


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value if abs(value) < 10**9 else None
    if not isinstance(value, str) or not value.isascii():
        return None
    match = re.fullmatch(r"(\d{1,9})([kKmM]?)", value.strip())
    if match is None:
        return None
    # vLLM reads 8k as 8000 and 8K as 8192.
    return int(match[1]) * {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[match[2]]
