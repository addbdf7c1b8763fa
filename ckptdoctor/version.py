"""The version of this package, in a module that knows no other one: reports and receipts name it."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
