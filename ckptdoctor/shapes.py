"""The shapes of the JSON documents: one class says which keys an object has, where each is read, and what it means.

`encode` makes the object from what was measured; `docs/schemas.py` writes the JSON Schema from the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from ckptdoctor.jsontext import as_plain
from ckptdoctor.unknown import Unknown
from ckptdoctor.version import __version__

__all__ = [
    "Count",
    "Document",
    "Entry",
    "Name",
    "Shape",
    "Share",
    "Tool",
    "encode",
    "entries",
    "item",
    "itself",
    "limits",
]

Read: TypeAlias = Callable[[Any], Any]


def limits(**keywords: Any) -> tuple[tuple[str, Any], ...]:
    """For `Annotated`: keywords of JSON Schema, such as `minimum`."""
    return tuple(keywords.items())


Count: TypeAlias = Annotated[int, limits(minimum=0)]
Share: TypeAlias = Annotated[float, limits(minimum=0, maximum=1)]
Name: TypeAlias = Annotated[str, limits(minLength=1)]


class Shape:
    """An object of a document. Its annotations are the keys in their order, its docstring is the description.

    An annotation is a plain type, a list, a dict, an enum, a `Literal`, a further shape, or one of these and None;
    `Annotated` holds `limits`, or a description that all who use the type share. A single-valued
    `Literal` is a constant. A name that Python keeps for itself has a `_` behind it. Every key is always there, unless
    `needed` names those that are; `late` are keys that came within a schema_version, which older documents lack.
    `further` allows keys that are not named here.
    """

    needed: ClassVar[tuple[str, ...] | None] = None
    late: ClassVar[tuple[str, ...]] = ()
    further: ClassVar[bool] = False

    def __init_subclass__(
        cls, needed: tuple[str, ...] | None = None, late: tuple[str, ...] = (), further: bool = False
    ) -> None:
        cls.needed, cls.late, cls.further = needed, late, further

    @classmethod
    def fits(cls, value: Any) -> bool:  # noqa: ARG003  # where an annotation has several shapes, theirs look at it
        """Whether `value` is told in this shape; asked where there are several, in their order."""
        return True


@dataclass(frozen=True)
class Entry:
    """One key: what it means, its annotation, how its value is read, and whether None leaves it out."""

    key: str
    about: str
    type: Any
    read: Read
    omitted: bool


@dataclass(frozen=True)
class _Item:
    about: str
    at: str | int | Read | None
    omitted: bool


def item(about: str = "", at: str | int | Read | None = None, *, omitted: bool = False) -> Any:
    """What is told of a key: its description, and where its value is read unless it is the attribute of that name.

    `at` is a path of attributes, a place in a tuple, or a function. `omitted`: the key is left out where it is None.
    """
    return _Item(about, at, omitted)


def itself(value: Any) -> Any:
    """For `at`: the same object, told in a further shape."""
    return value


def entries(shape: type[Shape]) -> tuple[Entry, ...]:
    """The keys of a shape in their order."""
    hints = get_type_hints(shape, include_extras=True)
    return tuple(_entry(shape, name, hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar)


def _entry(shape: type[Shape], name: str, hint: Any) -> Entry:
    told = getattr(shape, name, None) or item()
    at = told.at
    if at is None and get_origin(hint) is Literal and len(get_args(hint)) == 1:
        at = partial(_constant, get_args(hint)[0])
    elif at is None or isinstance(at, str):
        at = attrgetter(at or name)
    elif isinstance(at, int):
        at = itemgetter(at)
    return Entry(name.rstrip("_"), told.about, hint, at, told.omitted)


def _constant(value: Any, _: Any) -> Any:
    return value


def encode(shape: type[Shape], value: Any, **given: Any) -> dict[str, Any]:
    """`value` as the plain object of `shape`; `given` are values of keys that are not read from it.

    A mapping is such an object already.
    """
    if isinstance(value, Mapping):
        return dict(as_plain(value))
    data = {}
    for key, read, convert, omitted in _steps(shape):  # type: ignore[arg-type]  # mypy takes what holds of objects for what holds of their class
        found = given[key] if key in given else read(value)
        if not omitted or found is not None:
            data[key] = convert(found)
    return data


@cache
def _steps(shape: type[Shape]) -> tuple[tuple[str, Read, Read, bool], ...]:
    return tuple((entry.key, entry.read, _converter(entry.type), entry.omitted) for entry in entries(shape))


def _converter(hint: Any) -> Read:
    """What makes the plain value of a value that is of the type `hint`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _converter(args[0])
    if origin in (Union, UnionType):
        return _either(tuple(arg for arg in args if arg is not NoneType))
    if origin is list:
        one = _converter(args[0])
        return list if one is itself else lambda values: [one(value) for value in values]
    if origin is dict:
        one = _converter(args[1])
        return lambda values: {key: one(value) for key, value in values.items()}
    if isinstance(hint, type) and issubclass(hint, Shape):
        return partial(encode, hint)
    return itself if hint in (str, int, float, bool) else as_plain


def _either(hints: tuple[Any, ...]) -> Read:
    """For one of several, or null; what is not known is null too."""
    ways = [(hint.fits if len(hints) > 1 else None, _converter(hint)) for hint in hints]

    def convert(value: Any) -> Any:
        if value is None or isinstance(value, Unknown):
            return None
        return next(one for fits, one in ways if fits is None or fits(value))(value)

    return convert


class Tool(Shape):
    """What made the document."""

    name: Literal["ckptdoctor"]
    version: Name = item("The release, as in `ckptdoctor --version`.", at=lambda _: _version())


class Document(Shape):
    """The head that documents share."""

    schema_version: Literal[1] = item("Raised when a reader of the former version would misread the document.")
    tool: Tool = item(at=itself)


def _version() -> str:
    return __version__
