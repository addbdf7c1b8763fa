"""Files that hold counts already: PyTorch files, JSON and `.npy`.

speculators writes `torch.save(dict(Counter))` (train/vocab_mapping.py, `save_token_frequency_distribution`, counted
where loss_mask is set). SpecForge counts into a Counter and keeps only the map made from it,
`torch.save({"d2t": …, "t2d": …})` (data/preprocessing.py, `generate_vocab_mapping_file`), which has no counts any more.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.jsonreader import read_json
from ckptdoctor.checkpoint.pickled.plain import Other, PlainTensor
from ckptdoctor.checkpoint.pickles import read_plain
from ckptdoctor.named_file import read_named
from ckptdoctor.text import listing, show
from ckptdoctor.tokencounts.tally import ID_LIMIT, Tally

__all__ = ["read_table"]

_JSON_LIMIT = 64 * 1024 * 1024
_MAPS = frozenset({"d2t", "t2d", "draft_id_to_target_id"})
_ARRAY_START = b"\x93NUMPY"


def read_table(place: Path, tally: Tally) -> str:
    """Add the counts in the file `place` to `tally`; gives their kind. Raises `CannotExamineError`."""
    ending = place.suffix.lower()
    try:
        if ending == ".json":
            return _json(place, tally)
        return _array(place, tally) if ending == ".npy" else _pickle(place, tally)
    except OSError as error:
        raise tally.refuse(f"cannot be read ({show(error.strerror or error)})") from None


def _json(place: Path, tally: Tally) -> str:
    size = place.stat().st_size
    if size > _JSON_LIMIT:
        raise tally.refuse(f"has {size} bytes; of a JSON file with counts at most {_JSON_LIMIT} are read")
    document = read_json(read_named(place, _JSON_LIMIT), place.name, depth=0)
    if not document.readable:
        fault = document.faults[-1]
        raise tally.refuse(f"is no JSON ({show(fault.detail or fault.kind.replace('_', ' '))})")
    value = document.value
    if isinstance(value, dict):
        if any(fault.kind == "json_duplicate_key" for fault in document.faults):
            raise tally.refuse("names a token twice")
        _mapping(value, tally)
    elif isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        for row in value:
            if len(row) != 2:
                raise tally.refuse(f"{show(row, 60)} is no pair of an id and a count")
            tally.add_pair(row[0], row[1])
    elif isinstance(value, list):
        _sequence(value, tally)
    else:
        raise tally.refuse("holds neither an object of counts by id, nor a list of counts, nor a list of [id, count]")
    return "json"


def _array(place: Path, tally: Tally) -> str:
    import numpy as np

    with place.open("rb") as stream:
        if stream.read(len(_ARRAY_START)) != _ARRAY_START:
            raise tally.refuse("is no .npy file (an .npz archive has to be taken apart first)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Mapped: a header that promises more values than the file has is refused, and nothing is allocated.
            values = np.load(place, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged header raises anything at all
        raise tally.refuse(f"cannot be read ({show(error)})") from None
    tally.add_counts(np.asarray(values))
    return "npy"


def _pickle(place: Path, tally: Tally) -> str:
    value = read_plain(place, f"--token-counts {tally.name}")
    if isinstance(value, dict):
        if _MAPS & {key for key in value if isinstance(key, str)}:
            what = listing(key for key in value if isinstance(key, str))
            raise tally.refuse(f"holds a finished map ({what}), and no counts; name the file that it was made from")
        _mapping(value, tally)
        return "specforge" if isinstance(value, Counter) else "speculators"
    if isinstance(value, (list, tuple)):
        raise tally.refuse("holds a list, as token maps (--speculative-token-map) do, and no counts by id")
    if isinstance(value, PlainTensor):
        return _tensor(value, tally)
    raise tally.refuse(
        f"holds {show(value.type_name if isinstance(value, Other) else type(value).__name__)}, and no counts"
    )


def _tensor(value: PlainTensor, tally: Tally) -> str:
    import numpy as np

    if value.dtype == "bool" or "complex" in value.dtype or value.dtype.startswith("q"):
        raise tally.refuse(f"holds {show(value.dtype)} values, and no counts")
    if value.array is None or len(value.shape) != 1 or value.shape[0] > ID_LIMIT:
        raise tally.refuse("holds a tensor that is no list of counts, one for each token")
    if value.shape[0] > 1 and len(np.unique(value.array)) == value.shape[0]:
        raise tally.refuse("no number in it comes twice: this is a list of token ids, and no counts")
    tally.add_counts(value.array.astype(np.float64 if value.array.dtype.kind == "f" else np.int64))
    return "npy"


def _mapping(value: dict[Any, Any], tally: Tally) -> None:
    if len(value) > ID_LIMIT:
        raise tally.refuse(f"counts {len(value)} tokens; no vocabulary has more than {ID_LIMIT}")
    for token, count in value.items():
        if isinstance(count, PlainTensor):
            raise tally.refuse(f"holds tensors ({show(token, 60)}), and no counts")
        tally.add_pair(token, count)


def _sequence(value: list[Any], tally: Tally) -> None:
    for token, count in enumerate(value):
        tally.add_pair(token, count)
