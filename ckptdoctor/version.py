"""The version of this package. A test holds it to `pyproject.toml`."""

__all__ = ["__version__"]

__version__ = "0.1.0"
