"""Inert stand-ins for packages of compiled kernels, which a machine without a GPU cannot import.

A stand-in takes what engines do with such packages while they are imported: read attributes, subclass, decorate. None
holds loader code, and nothing of an engine itself is replaced.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any


def stub_absent(*packages: str) -> None:
    """Makes each package that is not installed import as an inert stand-in."""
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    sys.meta_path.insert(0, _Finder(absent))


class _Stub:
    """Any attribute, any call; as a decorator it returns what it decorates. False."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A plain function: it can decorate, and asking it for the active GPU raises AttributeError, as engines expect.
        return self._decorate(*args) if len(args) == 1 and not kwargs and callable(args[0]) else self._decorate

    def _decorate(self, *args: Any, **_kwargs: Any) -> Any:
        if len(args) != 1 or not callable(args[0]):
            return None
        if self._name.endswith(".jit") and isinstance(args[0], types.FunctionType):
            args[0].fn = args[0]  # type: ignore[attr-defined]  # where triton keeps the plain function
        return args[0]

    def __getitem__(self, key: Any) -> Any:
        return self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)


class _StubType(type):
    """A class that can be subclassed, called and asked for any attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(f"{cls.__name__}.{name}")

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __instancecheck__(cls, instance: Any) -> bool:
        # `assert isinstance(kernel, JITFunction)`: the stand-in of @jit returns the function itself.
        return callable(instance) if cls.__name__ == "JITFunction" else type.__instancecheck__(cls, instance)


class _Module(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = "<stub>"
        self.__version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        made = _StubType(name, (), {"__init__": _accept_anything}) if name[:1].isupper() else _Stub(full)
        setattr(self, name, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Stub(self.__name__)(*args, **kwargs)


def _accept_anything(*_args: Any, **_kwargs: Any) -> None:
    return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = tuple(packages)

    def find_spec(self, fullname: str, *_where: Any) -> importlib.machinery.ModuleSpec | None:
        if any(fullname == package or fullname.startswith(package + ".") for package in self._packages):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, _module: types.ModuleType) -> None:
        return None
