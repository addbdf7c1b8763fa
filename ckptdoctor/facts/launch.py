"""The launch line: what the command that starts a server says about speculation.

Understands the flags of SGLang and vLLM as far as the wiring depends on them. Unknown words are left
alone; nothing is executed or expanded.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

__all__ = ["Launch", "parse_launch"]

LINE_LIMIT = 64 * 1024
# Flags that never take a value, and so leave the word after them alone.
_BARE = frozenset({
    "rm", "it", "ti", "d", "privileged", "enforce-eager", "disable-cuda-graph", "enable-two-batch-overlap",
    "trust-remote-code",
})  # fmt: skip
_TENSOR_PARALLEL = ("tensor-parallel-size", "tp-size", "tp")


@dataclass(frozen=True)
class Launch:
    """What a launch line says.

    `engine` is `sglang`, `vllm` or None when the line does not tell. `method` is the algorithm as the
    engine understands it: `eagle3`, `eagle`, `dflash`, `dspark`, `mtp`, … in lower case; None when the
    line leaves it to the engine. `cuda_graphs` is False when the line turns them off. `token_map` is the file of
    SGLang's --speculative-token-map, `tensor_parallel` the number of parts that SGLang cuts each weight into.
    """

    text: str
    engine: str | None = None
    method: str | None = None
    draft_path: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    cuda_graphs: bool = True
    two_batch_overlap: bool = False
    pipeline_size: int = 1
    runner: str | None = None
    token_map: str | None = None
    tensor_parallel: int = 1


def parse_launch(text: str) -> Launch:
    """Read a launch line. Raises `UsageError` when it cannot be split into words, or its JSON cannot be read."""
    if len(text) > LINE_LIMIT:
        raise UsageError("the launch line is longer than any command")
    try:
        words = shlex.split(text.replace("\r\n", "\n").replace("\\\n", " "), comments=False)
    except ValueError as error:
        raise UsageError(f"the launch line cannot be read: {show(error)}") from None
    options, environment, plain = _options(words)
    engine = _engine(plain, options)
    speculative = _speculative(options)
    if engine == "vllm" or speculative:
        method = speculative.get("method")
        path = speculative.get("model")
        return Launch(
            text=text,
            engine="vllm",
            method=method.lower() if isinstance(method, str) else None,
            draft_path=path if isinstance(path, str) else None,
            draft_tokens=_whole(speculative.get("num_speculative_tokens")),
            cuda_graphs="enforce-eager" not in options,
            pipeline_size=_whole(options.get("pipeline-parallel-size") or options.get("pp")) or 1,
            runner={"1": "v2", "0": "v1"}.get(environment.get("VLLM_USE_V2_MODEL_RUNNER", "")),
        )
    algorithm = options.get("speculative-algorithm") or options.get("speculative-algo")
    return Launch(
        text=text,
        engine=engine,
        method={"nextn": "eagle"}.get(algorithm.lower(), algorithm.lower()) if algorithm else None,
        draft_path=options.get("speculative-draft-model-path")
        or options.get("speculative-draft-model")
        or options.get("speculative-draft"),
        steps=_whole(options.get("speculative-num-steps")),
        topk=_whole(options.get("speculative-eagle-topk")),
        draft_tokens=_whole(options.get("speculative-num-draft-tokens")),
        cuda_graphs="disable-cuda-graph" not in options,
        two_batch_overlap="enable-two-batch-overlap" in options,
        pipeline_size=_whole(options.get("pp-size") or options.get("pipeline-parallel-size")) or 1,
        token_map=options.get("speculative-token-map") or None,
        tensor_parallel=next(filter(None, (_whole(options.get(name)) for name in _TENSOR_PARALLEL)), 1),
    )


def _options(words: list[str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Options without their dashes (a flag alone has the value ""), the environment, and the rest.

    The environment are NAME=value words before the engine's own, and those that `-e` or `--env` of a
    container hold. The last of several equal options counts.
    """
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    plain: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.startswith("-") and len(word) > 1:
            name, has_value, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-")
            if not has_value and name not in _BARE and index < len(words) and _is_value(words[index]):
                value = words[index]
                index += 1
            if name in ("e", "env") and "=" in value:
                environment |= _assignment(value)
            options[name] = value
        elif "=" in word and word.partition("=")[0].isidentifier() and not any(map(_program, plain)):
            environment |= _assignment(word)
        else:
            plain.append(word)
    return options, environment, plain


def _is_value(word: str) -> bool:
    """Whether a word after an option can be its value: another option cannot, a negative number can."""
    return not word.startswith("-") or word == "-" or re.match(r"-\.?\d", word) is not None


def _assignment(word: str) -> dict[str, str]:
    name, _, value = word.partition("=")
    return {name: value.rstrip(";")}


def _program(word: str) -> str | None:
    """The engine whose program, module or image a word is: `/usr/bin/vllm`, `vllm.entrypoints.x`, `a/sglang:v1`."""
    last = word.rstrip("/").rpartition("/")[2]
    found = re.match(r"(sglang|vllm)(-openai)?(?=$|[.:@])", last)
    return found[1] if found else None


def _engine(plain: list[str], options: Mapping[str, str]) -> str | None:
    """The first program, module or image of an engine; else what the flags are; else a mention of a name."""
    words = [options.get("m", ""), *plain]
    for word in words:
        if (engine := _program(word)) is not None:
            return engine
    if any(name.startswith(("speculative-algo", "speculative-draft")) for name in options):
        return "sglang"
    if any(name.partition(".")[0] in ("speculative-config", "sc") for name in options):
        return "vllm"
    text = " ".join(words)
    return next((engine for engine in ("sglang", "vllm") if engine in text), None)


def _speculative(options: Mapping[str, str]) -> dict[str, Any]:
    """The object of --speculative-config, and its members given one by one (`--speculative-config.method eagle3`)."""
    found = _json(options.get("speculative-config") or options.get("sc"))
    for name, value in options.items():
        option, _, member = name.partition(".")
        if option in ("speculative-config", "sc") and member:
            found[member.replace("-", "_")] = value
    return found


def _json(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"--speculative-config is no JSON: {show(text, 80)}") from None
    if not isinstance(value, dict):
        raise UsageError(f"--speculative-config is no JSON object: {show(text, 80)}")
    return value


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None
