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

# --- files that a person names -------------------------------------------------------------------------------------

RULE_FILE = 1_000_000
"""Bytes of a rule file of one's own."""

RULE_FILE_DEPTH = 20
"""Levels of nesting in a rule file of one's own."""

YAML_NUMBER = 64
"""Characters of a number in YAML, which may be written to the base of 60 and then takes long to multiply."""

PROJECT_FILE = 1024 * 1024
"""Bytes of a project file (`ckptdoctor.toml`, `pyproject.toml`)."""

BASELINE_FILE = 64 * 1024 * 1024
"""Bytes of a baseline."""

LAUNCH_FILE = 1024 * 1024
"""Bytes of a file with a launch line."""

LAUNCH_LINE = 64 * 1024
"""Characters of a launch line; a script may have sixteen times as many around it."""

LAUNCH_OPTIONS = 1_000
"""Options of one launch line."""

# --- GGUF files ----------------------------------------------------------------------------------------------------

GGUF_ENTRIES = 10_000
"""Metadata entries of a GGUF file; real files have a few dozen."""

GGUF_TENSORS = 100_000
"""Tensors of a GGUF file."""

GGUF_TEXT = 1024
"""Bytes of a text of a GGUF file that is kept; a longer one is passed over."""

GGUF_LIST = 4096
"""Elements of a list of numbers of a GGUF file that is kept; a longer one is passed over."""

GGUF_LISTED_TEXTS = 2_000_000
"""Texts in all lists of a GGUF file together; a vocabulary and its merges are less than half of that."""

GGUF_HEADER = 256 * 1024 * 1024
"""Bytes of the header of a GGUF file. Vocabulary and merges take about 10 MB."""

# --- gates ---------------------------------------------------------------------------------------------------------

GATE_SECONDS = 600
"""Seconds that a gate takes for one tree unless CKPTDOCTOR_GATE_SECONDS says otherwise; past them it refuses."""

GATE_FOLDERS = 20_000
"""Folders of a tree that a gate looks into; it refuses a larger one rather than judge it in part."""
