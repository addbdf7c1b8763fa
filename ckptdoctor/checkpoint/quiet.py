"""Arithmetic on values of a file, which may be infinite, no numbers at all, or too large for what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["quiet"]

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")


def quiet(function: Callable[_Takes, _Gives]) -> Callable[_Takes, _Gives]:
    """`function` without numpy's warnings, which would name a line of ckptdoctor on stderr, or be an error where a
    person asks for that (`PYTHONWARNINGS=error`). What comes of such values is looked at where it is used."""

    @wraps(function)
    def calls(*arguments: _Takes.args, **options: _Takes.kwargs) -> _Gives:
        import numpy as np

        with np.errstate(all="ignore"):
            return function(*arguments, **options)

    return calls
