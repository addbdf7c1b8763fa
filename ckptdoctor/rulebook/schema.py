"""Checks the content of a person's rule file against the schema, in sentences about rules instead of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.rulebook.errors import did_you_mean
from ckptdoctor.text import listing, show

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

__all__ = ["rule_validator", "schema_problems"]

_KINDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "object": "a mapping",
    "string": "a text",
}


def rule_validator(rules: Path) -> Draft202012Validator:
    """The validator for rule files; `rules` is the folder that holds `schema/`."""
    # Imported here because it costs as much as a whole scan, and only the files of a person need it.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((rules / "schema" / "rule.schema.json").read_bytes()))


def schema_problems(content: Any, validator: Draft202012Validator) -> Iterator[tuple[int | None, str]]:
    """What does not agree with the schema: the index of the rule (None for the file as a whole), and a sentence."""
    errors = sorted(validator.iter_errors(content), key=lambda error: [str(part) for part in error.absolute_path])
    for error in errors:
        path = list(error.absolute_path)
        index = path[0] if path and isinstance(path[0], int) else None
        for sentence in _sentences(error):
            yield index, sentence


def _sentences(error: ValidationError) -> Iterator[str]:
    field = ".".join(str(part) for part in list(error.absolute_path)[1:])
    what = show(field) if field else "a rule" if error.absolute_path else "the file"
    wanted: Any = error.validator_value
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "additionalProperties":
        known = schema["properties"]
        for name in instance:
            if name not in known:
                inside = f" in {what}" if field else ""
                yield f"unknown field {show(name)}{inside}{did_you_mean(str(name), known)}"
    elif error.validator == "required":
        # One error comes for each missing name, and only its message says which.
        missing = error.message.split("'")[1]
        yield f"{show(missing)} is missing" + (f" in {what}" if field else "")
    elif error.validator == "anyOf":
        yield "at least one of when, assert and for_each is needed"
    elif error.validator == "enum":
        hint = did_you_mean(str(instance), [str(value) for value in wanted])
        yield f"{what} must be one of {listing(wanted, len(wanted))}, not {show(instance, 40)}{hint}"
    elif error.validator == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        expected = " or ".join(_KINDS[kind] for kind in kinds)
        yield f"{what} must be {expected}, not {show(json.dumps(instance, default=str), 40)}"
    elif error.validator == "pattern":
        yield f"{what} must be {schema.get('x-words', 'of the form ' + wanted)}, not {show(instance, 40)}"
    elif error.validator in ("minLength", "minItems", "minProperties"):
        yield f"{what} must not be empty"
    else:
        yield f"{what}: {show(error.message)}"
