"""The picture of the page about vocabularies: what `ckptdoctor vocab show --svg` draws of a fixture."""

from __future__ import annotations

import tempfile
from pathlib import Path

from generator.runs import Shown

__all__ = ["vocabulary_picture"]

_COMMAND = (
    "ckptdoctor vocab show fixtures/trainers/sf_eagle3_llama_sglang --target fixtures/vocab/target "
    "--token-counts fixtures/vocab/token-counts.json --svg {file}"
)


def vocabulary_picture() -> str:
    """The text of `docs/vocabulary.svg`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.svg"
        output, code = Shown(_COMMAND.format(file=file), "", 0).run()
        if code:
            raise RuntimeError(output)
        return file.read_text(encoding="utf-8")
