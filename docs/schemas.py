"""Write the schemas of the JSON documents from their shapes: `python docs/schemas.py`. With `--check`: name stale ones.

Those of what is read (rules, contracts, policies, receipts) are written by hand: there the schema is the contract.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ckptdoctor.report.acceptance.as_json import Answer  # noqa: E402
from ckptdoctor.report.fix.as_json import Fix  # noqa: E402
from ckptdoctor.report.probe.as_json import Probe  # noqa: E402
from ckptdoctor.report.scan.document import Report  # noqa: E402
from ckptdoctor.report.vocab.as_json import Page  # noqa: E402
from ckptdoctor.shapes import Entry, Shape, entries  # noqa: E402
from ckptdoctor.vocab.document import Built  # noqa: E402

FOLDER = ROOT / "rules" / "schema"
DOCUMENTS: dict[str, tuple[type[Shape], ...]] = {
    "report": (Report,),
    "fix": (Fix,),
    "probe": (Probe,),
    "acceptance": (Answer,),
    "vocab": (Page, Built),
}
"""What each command prints: one shape, or one of several."""

_WIDTH = 110
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(name: str, shapes: tuple[type[Shape], ...]) -> dict[str, Any]:
    """The JSON Schema of the document `name`."""
    shared: dict[str, dict[str, Any]] = {}
    whole = [_shape(shape, shared) for shape in shapes]
    if len(whole) > 1:
        shared |= {_name(shape): one for shape, one in zip(shapes, whole, strict=True)}
        whole = [{"oneOf": [_pointer(shape) for shape in shapes]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Written by docs/schemas.py from the shapes in ckptdoctor.",
        "$id": f"urn:ckptdoctor:schema:{name}:1",
        "title": f"ckptdoctor {name}",
        **whole[0],
        "$defs": dict(sorted(shared.items())),
    }


def _shape(shape: type[Shape], shared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of one object; those of the shapes in it go to `shared`, by name."""
    keys = entries(shape)
    needed = shape.needed or [entry.key for entry in keys if not entry.omitted and entry.key not in shape.late]
    return {
        **({"description": " ".join(shape.__doc__.split())} if shape.__doc__ else {}),
        "type": "object",
        **({} if shape.further else {"additionalProperties": False}),
        **({"required": list(needed)} if needed else {}),
        "properties": {entry.key: _key(entry, shared) for entry in keys},
    }


def _key(entry: Entry, shared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    about = {"description": entry.about} if entry.about else {}
    return {**about, **_value(entry.type, shared), **about}


def _value(hint: Any, shared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of a value of the type `hint`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        told = [{"description": more} if isinstance(more, str) else dict(more) for more in args[1:]]
        return _value(args[0], shared) | {key: value for more in told for key, value in more.items()}
    if origin in (Union, UnionType):
        return _either([_value(arg, shared) for arg in args if arg is not NoneType], NoneType in args)
    if origin is Literal:
        return {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
    if origin is list:
        return {"type": "array", "items": _value(args[0], shared)}
    if origin is dict:
        return {"type": "object", **({} if args[1] is Any else {"additionalProperties": _value(args[1], shared)})}
    if hint is Any:
        return {}
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if issubclass(hint, Shape):
        if _name(hint) not in shared:
            shared[_name(hint)] = {}  # its place, should it hold itself
            shared[_name(hint)] = _shape(hint, shared)
        return _pointer(hint)
    return {"type": _PLAIN[hint]}


def _either(ways: list[dict[str, Any]], null: bool) -> dict[str, Any]:
    if len(ways) > 1 or "$ref" in ways[0]:
        return {"oneOf": [*ways, *([{"type": "null"}] if null else [])]}
    if "enum" in ways[0]:
        return {**ways[0], "enum": [*ways[0]["enum"], None]}
    return {**ways[0], "type": [ways[0]["type"], "null"]}


def _pointer(shape: type[Shape]) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{_name(shape)}"}


def _name(shape: type[Shape]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", shape.__name__).lower()


def texts(folder: Path = FOLDER) -> Iterator[tuple[Path, str]]:
    """Each schema: where it belongs, and its text."""
    for name, shapes in DOCUMENTS.items():
        yield folder / f"{name}.schema.json", _laid_out(schema(name, shapes)) + "\n"


def _laid_out(value: Any, indent: int = 0) -> str:
    """JSON as a person would write it: what fits into a line stands in one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent < _WIDTH or not isinstance(value, (dict, list)):
        return flat
    start, inner = " " * indent, indent + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(one, inner)}" for key, one in value.items()]
    else:
        parts = [_laid_out(one, inner) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "".join(f"\n{start}  {part}," for part in parts)[:-1] + f"\n{start}{closing}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the stale schemas and exit 1")
    check = parser.parse_args(arguments).check
    stale = [(path, text) for path, text in texts() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run python docs/schemas.py")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
