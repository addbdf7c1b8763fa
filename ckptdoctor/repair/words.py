"""The sentences of a plan, from rules/repair/words: why a repair that could be made is not made."""

from __future__ import annotations

from ckptdoctor.sentences import Sentences

__all__ = ["said"]

said = Sentences("repair/words/plan").say
"""The sentence of a name, with its blanks filled. What comes from files has to be made harmless before."""
