"""The example of a rule: a sick checkpoint from fixtures/, and what a scan says of it."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import Any

from ckptdoctor.report.wording import place
from ckptdoctor.rulebook import Rule
from generator.markdown import prose

__all__ = ["example"]

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_WIDTH = 96


@lru_cache(maxsize=1)
def _recipes() -> dict[str, Any]:
    if str(_FIXTURES) not in sys.path:
        sys.path.insert(0, str(_FIXTURES))
    from builder import load_recipes

    return dict(load_recipes())


def example(rule: Rule, old: str) -> str:
    """Markdown for the first bad recipe that can be built here; `old` (the section as it stands) where torch is
    needed and absent, and the rule's own words where no recipe is there yet."""
    known = [name for name in rule.bad if name in _recipes()]
    if not known:
        return f"See the recipe {', '.join(f'`{name}`' for name in rule.bad)}."
    name = min(known, key=lambda one: (_recipes()[one].needs_torch, rule.bad.index(one)))
    recipe = _recipes()[name]
    if recipe.needs_torch and importlib.util.find_spec("torch") is None:
        return old
    intro = f"`{name}`: {prose(recipe.wrong or f'{recipe.imitates}.')} A scan prints:"
    if recipe.deep:
        option = "--deep" if recipe.against is None else "--against OLD"
        intro = intro.replace("A scan prints:", f"`scan {option}` prints:")
    return f"{intro}\n\n```text\n{_printed(rule, recipe)}\n```"


def _printed(rule: Rule, recipe: Any) -> str:
    """The finding of `rule` on the checkpoint of `recipe`, as the text report has it."""
    from builder import build, counts_file, other_copy

    from ckptdoctor.scanning import scan

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, recipe.id)
        build(recipe, folder)
        target = folder / "target"
        examination = scan(
            folder,
            target=target if target.is_dir() else None,
            select=[rule.id],
            engines=recipe.engines,
            launch=recipe.launch,
            trained_with=recipe.trained_with,
            captured_with=recipe.captured_with,
            token_counts=counts_file(folder) if recipe.token_counts is not None else None,
            deep=recipe.deep,
            against=other_copy(folder) if recipe.against is not None else None,
        )
        finding = next((f for f in examination.findings if f.rule == rule.id), None)
        if finding is None:
            # Its tests tell this; a page has to be made all the same.
            return f"{rule.id} {rule.name}"
        where = place(finding.location)
        message = finding.message.replace(str(folder), recipe.id)
    head = f"{rule.id} {rule.name}" + (f"  {where}" if where else "")
    lines = textwrap.wrap(message, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join([head, *(f"  {line}" for line in lines)])
