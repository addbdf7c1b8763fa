"""The launch line: what the command that starts a server says about speculation.

Understands the flags of SGLang and vLLM as far as the wiring depends on them. Unknown words are left
alone; nothing is executed or expanded.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

__all__ = ["Launch", "parse_launch"]

LINE_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Launch:
    """What a launch line says.

    `engine` is `sglang`, `vllm` or None when the line does not tell. `method` is the algorithm as the
    engine understands it: `eagle3`, `eagle`, `dflash`, `dspark`, `mtp`, … in lower case; None when the
    line leaves it to the engine. `cuda_graphs` is False when the line turns them off.
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


def parse_launch(text: str) -> Launch:
    """Read a launch line. Raises `UsageError` when it cannot be split into words."""
    if len(text) > LINE_LIMIT:
        raise UsageError("the launch line is longer than any command")
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=False)
    except ValueError as error:
        raise UsageError(f"the launch line cannot be read: {show(error)}") from None
    options, environment, plain = _options(words)
    engine = _engine(plain, options)
    speculative = _json(options.get("speculative-config") or options.get("sc"))
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
        draft_path=options.get("speculative-draft-model-path") or options.get("speculative-draft"),
        steps=_whole(options.get("speculative-num-steps")),
        topk=_whole(options.get("speculative-eagle-topk")),
        draft_tokens=_whole(options.get("speculative-num-draft-tokens")),
        cuda_graphs="disable-cuda-graph" not in options,
        two_batch_overlap="enable-two-batch-overlap" in options,
        pipeline_size=_whole(options.get("pp-size") or options.get("pipeline-parallel-size")) or 1,
    )


def _options(words: list[str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Options without their dashes (a flag alone has the value ""), leading NAME=value words, and the rest."""
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    plain: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.startswith("-") and len(word) > 1:
            name, has_value, value = word.lstrip("-").partition("=")
            if not has_value and index < len(words) and not words[index].startswith("--"):
                value = words[index]
                index += 1
            options[name.replace("_", "-")] = value
        elif "=" in word and word.partition("=")[0].isidentifier() and not plain:
            environment[word.partition("=")[0]] = word.partition("=")[2]
        else:
            plain.append(word)
    return options, environment, plain


def _engine(plain: list[str], options: Mapping[str, str]) -> str | None:
    text = " ".join(plain) + " " + options.get("m", "")
    for engine in ("sglang", "vllm"):
        if engine in text:
            return engine
    if any(name.startswith("speculative-algo") or name.startswith("speculative-draft") for name in options):
        return "sglang"
    return "vllm" if "speculative-config" in options else None


def _json(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"--speculative-config is no JSON: {show(text, 80)}") from None
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None
