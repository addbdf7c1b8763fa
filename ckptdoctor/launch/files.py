"""`--launch VALUE`: the command itself, or the path of a file that holds it.

A file is a shell script, the options as YAML or JSON (SGLang's and vLLM's `--config`, TensorRT-LLM's extra options, a
speculative config alone), or a manifest that holds a command (Kubernetes, compose). Nothing is executed.
"""

from __future__ import annotations

import errno
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ckptdoctor.checkpoint.jsonreader import read_json
from ckptdoctor.errors import UsageError
from ckptdoctor.launch.engines import EngineLine, engine_lines
from ckptdoctor.launch.line import Launch, launch_of
from ckptdoctor.launch.words import without_documents
from ckptdoctor.limits import LAUNCH_FILE
from ckptdoctor.named_file import read_named
from ckptdoctor.resources import YAML_LOADER
from ckptdoctor.text import show

__all__ = ["launch_files", "read_launch"]

_SUFFIXES = frozenset({".sh", ".bash", ".zsh", ".yaml", ".yml", ".json", ".txt", ".env"})
_DATA = frozenset({".yaml", ".yml", ".json"})
_NODES = 20_000
_OBJECT_KEYS = frozenset({"method", "num_speculative_tokens", "decoding_type", "max_draft_len", "speculative_model"})


def read_launch(value: str) -> Launch:
    """Read a launch line, or the file of this name. Raises `UsageError` with one plain sentence."""
    place = _place(value)
    if place is None:
        return launch_of(value, config_of=lambda name: _config(name, Path(), {}))
    text = _text(place)
    data = place.suffix.lower() in _DATA or text.lstrip()[:1] in ("{", "[")
    try:
        return _of_data(place, text) if data else _of_script(place, text)
    except UsageError as error:
        raise UsageError(f"{show(place.name)}: {error}") from None


def launch_files(value: str) -> tuple[Path, ...]:
    """The files that `read_launch` reads for `value`, and the token map that the line names. Raises `UsageError`."""
    place, found = _place(value), read_launch(value)
    folder = Path() if place is None else place.parent
    line = found.source.engine
    named = None if line is None else found.source.options.last(line.raw.get("config_files", ()))
    places = [] if place is None else [place]
    if named is not None and named.value:
        places += _config_places(named.value, folder)
    return (*places, *([Path(found.token_map)] if found.token_map else ()))


def _place(value: str) -> Path | None:
    """The file that is meant; None for a line. Raises `UsageError` for the name of a file that is not there."""
    if "\n" in value or len(value) > 4096 or "\0" in value:
        return None
    path = Path(value)
    try:
        if path.is_file():
            return path
        is_folder = path.is_dir()
    except (OSError, ValueError):
        return None
    looks = path.suffix.lower() in _SUFFIXES and not any(c.isspace() for c in value)
    if value and (looks or (is_folder and not any(c.isspace() for c in value))):
        raise UsageError(f"--launch {show(value)}: {'a folder holds no launch line' if is_folder else 'no such file'}")
    return None


def _text(place: Path) -> str:
    try:
        data = read_named(place, LAUNCH_FILE)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UsageError(
                f"--launch {show(place)}: a file with a launch line has at most {LAUNCH_FILE} bytes"
            ) from None
        raise UsageError(f"--launch {show(place)}: cannot be read ({show(error.strerror or error)})") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"--launch {show(place)}: this is no text") from None


def _of_script(place: Path, text: str) -> Launch:
    script, documents = without_documents(text.replace("\r\n", "\n"))
    found = launch_of(script, script=True, config_of=lambda name: _config(name, place.parent, documents))
    if found.engine is None:
        raise UsageError("no command of a known engine is in it")
    return found


def _of_data(place: Path, text: str) -> Launch:
    for document in _documents(place.name, text):
        found = _of_value(document, place)
        if found is not None:
            return found
    raise UsageError("neither options of a known engine nor its command are in it")


def _documents(name: str, text: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        document = read_json(text.encode("utf-8"), name)
        if document.readable:
            return [document.value]
        if name.lower().endswith(".json"):
            raise UsageError("this JSON cannot be read")
    try:
        return [value for value, _ in zip(yaml.load_all(text, Loader=YAML_LOADER), range(64), strict=False)]
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError):
        raise UsageError("this YAML cannot be read") from None


def _of_value(value: Any, place: Path) -> Launch | None:
    if isinstance(value, str):
        return _known(launch_of(value, config_of=lambda name: _config(name, place.parent, {})))
    if isinstance(value, list) and value and all(isinstance(item, (str, int, float)) for item in value):
        return _known(_of_words([str(item) for item in value], {}, place))
    if isinstance(value, dict):
        return _of_options(value) or _of_manifest(value, place)
    if isinstance(value, list):
        return _of_manifest({"items": value}, place)
    return None


def _known(found: Launch) -> Launch | None:
    return found if found.engine is not None else None


def _of_words(words: list[str], environment: Mapping[str, str], place: Path) -> Launch:
    return launch_of(shlex.join(words), environment=environment, config_of=lambda name: _config(name, place.parent, {}))


def _of_options(value: Mapping[Any, Any]) -> Launch | None:
    """A mapping of options, or the object of speculation alone."""
    keys = {str(key) for key in value}
    if keys & _OBJECT_KEYS and not any(_is_object_key(line, key) for line in engine_lines().values() for key in keys):
        words = _object_words(dict(value))
        return launch_of(shlex.join(words), form="object") if words else None
    line = _engine_of_options(value)
    if line is None:
        return None
    words = [*shlex.split(line.raw["command"])]
    for key, item in value.items():
        words += _option_words(line, str(key), item)
    return launch_of(shlex.join(words), form="entries")


def _is_object_key(line: EngineLine, key: str) -> bool:
    return line.canonical(key) in line.object_names


def _engine_of_options(value: Mapping[Any, Any]) -> EngineLine | None:
    """The engine whose options these are: that of the object in it, else of words for speculation alone."""
    for key, item in value.items():
        if str(key).replace("-", "_") == "speculative_config":
            held = item if isinstance(item, dict) else _loaded(item)
            if isinstance(held, dict):
                return _engine_of_object(held)
    for line in engine_lines().values():
        signs = tuple(sign for sign in line.raw["signs"] if len(sign) > 2)
        if signs and any(str(key).replace("_", "-").startswith(signs) for key in value):
            return line
    return None


def _engine_of_object(held: Mapping[Any, Any]) -> EngineLine | None:
    """The engine with the most members of this object."""
    lines = [line for line in engine_lines().values() if line.object_option is not None]
    counted = [(sum(str(key) in line.members for key in held), line.engine, line) for line in lines]
    best = max(counted, key=lambda item: item[:2], default=None)
    return best[2] if best is not None and best[0] else None


def _loaded(item: Any) -> Any:
    try:
        return json.loads(item) if isinstance(item, str) and len(item) < LAUNCH_FILE else None
    except (ValueError, RecursionError):
        return None


def _object_words(value: dict[Any, Any]) -> list[str]:
    line = _engine_of_object(value)
    if line is None:
        return []
    return [*shlex.split(line.raw["command"]), f"--{line.object_option}", _dumped(value)]


def _option_words(line: EngineLine, key: str, item: Any) -> list[str]:
    name = f"--{key}"
    if item is None or item is False:
        return []
    if item is True:
        return [name] if line.canonical(key) in line.bare else [name, "true"]
    if isinstance(item, (dict, list)):
        return [name, _dumped(item)]
    return [f"{name}={item}"]


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False)[:60_000]
    except (ValueError, RecursionError):
        return "{}"


def _of_manifest(value: Mapping[Any, Any], place: Path) -> Launch | None:
    """The first command in a manifest that speaks of speculation, else the first of an engine."""
    best: Launch | None = None
    stack: list[Any] = [value]
    seen: set[int] = set()
    while stack and len(seen) < _NODES:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, (dict, list)):
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            found = _of_container(node, place)
            if found is not None and (best is None or (found.speculates and not best.speculates)):
                best = found
            if best is not None and best.speculates:
                return best
            # A mapping of options may stand inside (a values file, a recipe of several engines).
            inner = next((o for v in node.values() if isinstance(v, dict) and (o := _of_options(v)) is not None), None)
            if inner is not None and best is None:
                best = inner
        stack += reversed(list(node.values()) if isinstance(node, dict) else node)
    return best


def _of_container(node: Mapping[Any, Any], place: Path) -> Launch | None:
    words: list[str] = []
    for key in ("image", "entrypoint", "command", "args", "cmd"):
        item = node.get(key)
        if key == "image" and not any(k in node for k in ("command", "args", "entrypoint")):
            continue
        if isinstance(item, str):
            try:
                words += shlex.split(item) if key not in ("args",) or " -" in f" {item}" else [item]
            except ValueError:
                words += [item]
        elif isinstance(item, list):
            words += [str(part) for part in item if isinstance(part, (str, int, float))]
    if len(words) < 2 or sum(map(len, words)) > 60_000:
        return None
    environment = _environment(node.get("env", node.get("environment")))
    try:
        return _known(_of_words(words, environment, place))
    except UsageError:
        return None


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): str(item) for key, item in value.items()}
    found: dict[str, str] = {}
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and "name" in item and "value" in item:
            found[str(item["name"])] = str(item["value"])
        elif isinstance(item, str) and "=" in item:
            name, _, said = item.partition("=")
            found[name] = said
    return found


def _config_places(name: str, folder: Path) -> tuple[Path, ...]:
    return (folder / name, Path(name))


def _config(name: str, folder: Path, documents: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The options in the file that a command names, where it is at hand and can be read."""
    text: str | None = documents.get(name)
    if text is None:
        for place in _config_places(name, folder):
            try:
                if place.suffix.lower() in _DATA and place.is_file():
                    text = read_named(place, LAUNCH_FILE).decode("utf-8")
                    break
            except (OSError, ValueError):
                continue
    if text is None:
        return None
    try:
        found = _documents(Path(name).name, text)
    except UsageError:
        return None
    return found[0] if found and isinstance(found[0], dict) else None
