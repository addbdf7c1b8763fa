"""The audit of a tree or an organisation: every draft scanned in parallel, with a state to go on from."""

from __future__ import annotations
