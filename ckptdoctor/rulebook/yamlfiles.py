"""Reads YAML files of a person with every check that a stranger's file needs."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import yaml

from ckptdoctor.limits import RULE_FILE, RULE_FILE_DEPTH
from ckptdoctor.named_file import read_named
from ckptdoctor.resources import YAML_LOADER
from ckptdoctor.text import show

__all__ = ["BadYamlError", "read_checked"]


class BadYamlError(Exception):
    """A file that is not usable YAML; the text says why, and where when that is known."""


def read_checked(path: Path) -> tuple[Any, list[int]]:
    """The content of a person's file, and the line of each item when it is a list.

    Raises `BadYamlError` for a file that cannot be read, is too large, too deep, has a key twice in one
    mapping, or uses aliases (a few of them can stand for gigabytes).
    """
    text = _text(path)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=YAML_LOADER):
            line = _line(event)
            if isinstance(event, yaml.AliasEvent):
                raise BadYamlError(f"line {line}: aliases (*{show(event.anchor, 40)}) are not allowed in rule files")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > RULE_FILE_DEPTH:
                raise BadYamlError(f"line {line}: nested deeper than {RULE_FILE_DEPTH} levels")
        loader = YAML_LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, []
            _refuse_double_keys(node)
            content = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise BadYamlError(_sentence(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        # An impossible date or a number with too many digits.
        raise BadYamlError(show(error)) from None
    lines = [_line(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else []
    return content, lines


def _line(part: Any) -> int:
    return int(part.start_mark.line) + 1


def _text(path: Path) -> str:
    try:
        data = read_named(path, RULE_FILE)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadYamlError(f"is larger than {RULE_FILE // 1_000_000} MB") from None
        raise BadYamlError(f"cannot be read ({error.strerror or type(error).__name__})") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadYamlError(f"is not UTF-8 text (byte {error.start})") from None


def _refuse_double_keys(node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = _line(key)
                    raise BadYamlError(f"line {line}: the key {show(key.value, 40)} stands twice in one mapping")
                seen.add(key.value)
            _refuse_double_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_double_keys(item)


def _sentence(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {show(problem)}" if mark is not None else show(problem)
