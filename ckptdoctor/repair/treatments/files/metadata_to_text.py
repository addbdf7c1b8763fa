"""`__metadata__` in a header holds texts, as the format asks: numbers, lists and objects are written as JSON texts.

No reader of weights takes more from it than `format` (transformers, modeling_utils.py); the tensors stay as they are.
"""

from __future__ import annotations

import json
from typing import Any

from ckptdoctor.checkpoint import read_json
from ckptdoctor.checkpoint.container import HEADER_LIMIT
from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.repair.edits import SetMetadata
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]

_TEXT_LIMIT = 1 << 20


def propose(case: Case, file: str) -> Proposed:
    """The metadata of the weight file `file` as texts. Refused when more than its metadata is damaged, or when it is no
    object at all."""
    other = next((f for f in case.checkpoint.faults if f.file == file and f.kind != "metadata_not_text"), None)
    if other is not None:
        raise RefusedError("damaged", file=file)
    metadata = _metadata(case, file)
    if not isinstance(metadata, dict):
        raise RefusedError("no_object", file=file)
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
    if sum(len(key) + len(text) for key, text in texts.items()) > _TEXT_LIMIT:
        raise RefusedError("large", file=file)
    return Proposed((SetMetadata(file, tuple(texts.items())),), subject=file)


def _metadata(case: Case, file: str) -> Any:
    place = case.checkpoint.real_path(file)
    if place is None:
        return None
    with open_regular(place) as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length) if length <= HEADER_LIMIT else b""
    return read_json(header, file, depth=1).object.get("__metadata__")
