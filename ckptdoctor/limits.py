"""How much of what is given is read: the limits on every input, each with what it bounds.

Past a limit nothing is guessed: the part is told as unknown, as damaged or as too large, in a sentence. docs/limits.md
lists them.
"""

from __future__ import annotations

# --- PyTorch files ------------------------------------------------------------------------------------------------

PICKLE_SECONDS = 2
"""Seconds of processor time that one PyTorch file may take to read, beyond the start of the process that reads it."""

PICKLE_MEMORY = 256 * 1024 * 1024
"""Bytes of memory that reading one PyTorch file may take, beyond torch itself and the size of the file."""

PICKLE_WHOLE = 4 * 1024**3
"""Bytes at most of a PyTorch file of the form before torch 1.6, which is read from its start to its end."""

PICKLE_INFLATED = 256 * 1024 * 1024
"""Bytes of the pickle inside the archive of a PyTorch file at most; the tensors lie beside it."""

PICKLE_DIRECTORY = 4 * 1024 * 1024
"""Bytes of the directory of the archive that a PyTorch file is."""

PICKLE_ANSWER = 128 * 1024 * 1024
"""Bytes that the process which reads PyTorch files may answer with."""

PICKLE_CLAIMS = 16
"""How many times the bytes of a PyTorch file its tensors claim together at most (a stride of 0 claims any)."""

PICKLE_CLAIMS_ANYWAY = 64 * 1024 * 1024
"""Bytes that the tensors of a PyTorch file may claim together, however small the file is."""

PICKLE_GATHERED = 512 * 1024 * 1024
"""Bytes of a tensor's storage that are held to gather the elements of one that is not stored row by row."""

# --- lists of modules in quantisation configs ----------------------------------------------------------------------

LIST_ENTRIES = 20_000
"""Entries of a list of modules that are looked at; a longer one is read up to there."""

PATTERNS = 1_000
"""Patterns in one list of modules; what a list of more names is unknown."""

PATTERN_LENGTH = 300
"""Characters of one pattern in a list of modules; what a longer one names is unknown."""

PATTERN_NAME = 160
"""Characters of a name of a module that is compared with a list; a longer one is in no list."""

PATTERN_STEPS = 500_000_000
"""Steps that the entries of one list may take over all names: size of the program times length of the name."""
