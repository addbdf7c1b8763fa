"""FR-Spec token maps: the list of target ids that an EAGLE-1/2 draft may propose (`--speculative-token-map FILE`).

SGLang 0.4.9 to 0.5.23 reads the file with `torch.load(weights_only=True)`, makes `torch.tensor(…, dtype=int64)` of what
is in it, takes these rows of the target's head and turns a draft id i into entry i (spec_utils.py `load_token_map`,
eagle_worker.py and eagle_worker_v2.py). So entries are target ids, in any order; FR-Spec's own files are Python lists
in falling order of frequency. With EAGLE3 the flag is ignored with a line in the log, since the draft has a d2t.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint.jsonreader import read_json
from ckptdoctor.checkpoint.pickled.plain import Other, PlainTensor
from ckptdoctor.checkpoint.pickles import read_plain
from ckptdoctor.checkpoint.quiet import quiet
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.vocabulary.id_list import Violation, order_of, outside_of, repeats_of
from ckptdoctor.launch.line import Launch
from ckptdoctor.named_file import read_named
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["GivenTokenMap", "TokenMap", "given_token_map", "ids_of", "read_content", "read_token_map"]

FILE_LIMIT = 64 * 1024 * 1024
"""Bytes of a token map at most: as many as eight million ids of 64 bits take."""

_SHOWN = 8
_NO_END = 2**62


@dataclass(frozen=True)
class TokenMap:
    """A file with a token map.

    `form` is `torch`, `npy` or `json` (SGLang reads the first alone); `dtype` what it holds: `I64` and so on, `list`,
    or another type's name. `meaning`: `ids`, or what it holds instead: `offsets` (a d2t), `mask` (a t2d), `fractions`,
    `other` (no list of numbers at all). `length` counts the entries, `values` are the first few. `order` is that of the
    ids as found. `repeated` are entries whose id an earlier one has; `out_of_range` those that are no id of a
    vocabulary of `vocab_size`. `ids` are the entries (int64, shape [length]), None unless they are whole numbers.
    """

    source: str
    form: str
    dtype: str
    shape: tuple[int, ...]
    length: int
    meaning: str
    values: tuple[int, ...]
    order: str
    repeated: Violation | None
    out_of_range: Known[Violation | None]
    vocab_size: Known[int]
    ids: Any

    @property
    def plain(self) -> bool:
        """Whether SGLang can make a list of ids of it: a PyTorch file with one row of whole numbers."""
        return self.form == "torch" and len(self.shape) == 1 and self.meaning not in ("fractions", "other")


@dataclass(frozen=True)
class GivenTokenMap:
    """The token map that the launch line names.

    `path` is as given; `file` what is in it, unknown when no such file is here (SGLang then takes the name for one on
    the Hub). `method` is the algorithm of the line; `used` says whether it is the one that SGLang's token maps are for
    (EAGLE). `shards` is the number of parts that tensor parallelism cuts the head into.
    """

    path: str
    file: Known[TokenMap]
    method: str | None
    used: bool
    shards: int


def read_token_map(path: str, vocab_size: Known[int] | None = None) -> TokenMap:
    """Read the token map in the file `path` (`.pt`, `.npy` or `.json`) for a target of `vocab_size` ids.

    Nothing in the file is executed. Raises `CannotExamineError` with one sentence when it cannot be read.
    """
    size = Unknown("the target (--target PATH)") if vocab_size is None else vocab_size
    form, content = _read(Path(path), path)
    return _describe(path, form, content, size)


def read_content(place: Path, name: str) -> Any:
    """What the file `place` (`.pt`, `.npy` or `.json`, called `name` to the person) holds: an array, a list, a mapping.

    Nothing in it is executed. Raises `CannotExamineError` with one sentence when it cannot be read.
    """
    content = _read(place, name)[1]
    return {key: _plain(value) for key, value in content.items()} if isinstance(content, dict) else content


def ids_of(content: Any) -> IntArray | None:
    """The numbers in an array or a list as int64, shape [D]; None where they are no single row of whole numbers."""
    array, _ = _numbers(content)
    if array is None or array.ndim != 1 or array.dtype.kind == "b":
        return None
    return _whole(array)


def _read(place: Path, name: str) -> tuple[str, Any]:
    try:
        if not place.is_file():
            raise CannotExamineError(f"{show(name)}: no such file")
        if place.stat().st_size > FILE_LIMIT:
            raise CannotExamineError(f"{show(name)}: a token map has at most {FILE_LIMIT} bytes")
        return _content(place, name)
    except (OSError, ValueError) as error:
        raise CannotExamineError(f"{show(name)}: cannot be read ({show(error)})") from None


def given_token_map(launch: Launch | None, root: Path, vocab_size: Known[int]) -> GivenTokenMap | None:
    """The token map that `launch` names, if it names one; a relative path is looked for here, then in `root`.

    `root` is the folder of the draft. Never raises: what cannot be read is unknown.
    """
    if launch is None or launch.token_map is None:
        return None
    found: Known[TokenMap]
    place = _place(launch.token_map, root)
    if place is None:
        found = Unknown(f"the token map {show(launch.token_map)}")
    else:
        try:
            found = read_token_map(str(place), vocab_size)
        except CannotExamineError as error:
            found = Unknown(f"a readable token map ({show(error)})")
    return GivenTokenMap(launch.token_map, found, launch.method, launch.method == "eagle", launch.tensor_parallel)


def _place(path: str, root: Path) -> Path | None:
    try:
        if Path(path).is_file():
            return Path(path)
        inside = (root / path).resolve()
        return inside if inside.is_relative_to(root.resolve()) and inside.is_file() else None
    except (OSError, ValueError):
        return None


def _content(place: Path, name: str) -> tuple[str, Any]:
    """The form of the file, and an array, a list or whatever else is in it."""
    import numpy as np

    with place.open("rb") as stream:
        start = stream.read(8)
    if start.startswith(b"\x93NUMPY"):
        return "npy", np.load(place, mmap_mode="r", allow_pickle=False)
    if start.lstrip()[:1] in (b"[", b"{"):
        document = read_json(read_named(place, FILE_LIMIT), name, depth=2)
        if not document.readable:
            raise CannotExamineError(f"{show(name)}: this JSON cannot be read")
        return "json", document.value
    return "torch", _plain(read_plain(place, name))


def _plain(content: Any) -> Any:
    """A tensor as an array (bfloat16 as float32; None for one that has no plain values), anything else as it is."""
    return content.array if isinstance(content, PlainTensor) else content


def _describe(source: str, form: str, content: Any, size: Known[int]) -> TokenMap:
    array, dtype = _numbers(content)
    if array is None:
        return TokenMap(source, form, dtype, (), 0, "other", (), "other", None, None, size, None)
    shape = tuple(int(n) for n in array.shape)
    ids = _whole(array.reshape(-1))
    if ids is None:
        return TokenMap(source, form, dtype, shape, array.size, "fractions", (), "other", None, None, size, None)
    end = _NO_END if isinstance(size, Unknown) else size
    repeated, outside = repeats_of(ids, _NO_END), outside_of(ids, end)
    below = outside_of(ids, _NO_END)
    return TokenMap(
        source=source, form=form, dtype=dtype, shape=shape, length=len(ids),
        meaning="mask" if array.dtype.kind == "b" else _meaning(ids, repeated, below, end),
        values=tuple(ids[:_SHOWN].tolist()), order=order_of(ids), repeated=repeated,
        out_of_range=outside if outside is not None or not isinstance(size, Unknown) else size,
        vocab_size=size, ids=ids,
    )  # fmt: skip


def _numbers(content: Any) -> tuple[npt.NDArray[Any] | None, str]:
    """`content` as an array of numbers and the name of its type; None where it is no row or table of numbers."""
    import numpy as np

    if isinstance(content, np.ndarray):
        kind = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}.get(content.dtype.kind)
        name = show(content.dtype) if kind is None else kind if kind == "BOOL" else f"{kind}{content.itemsize * 8}"
        return (None if kind is None or content.ndim == 0 else np.asarray(content)), name
    if not isinstance(content, (list, tuple)):
        kind = content.type_name if isinstance(content, Other) else type(content).__name__
        return None, "dictionary" if isinstance(content, dict) else show(kind)
    try:
        array = np.array(content)
    except (ValueError, OverflowError, TypeError):
        return None, "list"
    return (array if array.dtype.kind in "biuf" and array.size else None), "list"


@quiet
def _whole(array: npt.NDArray[Any]) -> IntArray | None:
    """The numbers as int64; None where one is a fraction or needs more than 62 bits."""
    import numpy as np

    if array.dtype.kind == "f":
        wide = array.astype(np.float64)
        sound = np.isfinite(wide) & (wide == np.floor(wide)) & (np.abs(wide) < 2.0**53)
        if not bool(sound.all()):
            return None
    elif array.dtype.kind in "iu" and array.size and (int(array.max()) >= _NO_END or int(array.min()) <= -_NO_END):
        return None
    return array.astype(np.int64)


def _meaning(ids: IntArray, repeated: Violation | None, below: Violation | None, end: int) -> str:
    """`mask` for zeros and ones; `offsets` where entries are below zero, or begin with zeros as only a d2t does, and
    all become different ids when their number is added. A sorted list with ids that come twice stays one of ids."""
    import numpy as np

    if repeated is None and below is None:
        return "ids"
    if len(ids) > 2 and bool(((ids == 0) | (ids == 1)).all()):
        return "mask"
    added = ids + np.arange(len(ids), dtype=np.int64)
    alike = below is not None or not ids[:2].any()
    fit = alike and len(ids) > 2 and repeats_of(added, _NO_END) is None and outside_of(added, end) is None
    return "offsets" if fit else "ids"
