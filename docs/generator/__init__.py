"""Makes the pages of `docs/` that come from the rules, the other data under `rules/` and the facts."""

from generator.case_pages import cases_page
from generator.engine_pages import engine_page, engines_index
from generator.fact_pages import facts_page
from generator.knowledge_pages import algorithms_page, writers_page
from generator.pictures import vocabulary_picture
from generator.rule_pages import SECTIONS, index_page, rule_page
from generator.runs import Shown, refreshed, shown
from generator.treatment_pages import treatments_page

__all__ = [
    "SECTIONS",
    "Shown",
    "algorithms_page",
    "cases_page",
    "engine_page",
    "engines_index",
    "facts_page",
    "index_page",
    "refreshed",
    "rule_page",
    "shown",
    "treatments_page",
    "vocabulary_picture",
    "writers_page",
]
