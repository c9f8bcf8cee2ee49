"""Fill the templates that hold the wording of reports: `analysis/answers/QUESTION/*.txt.j2`.

A template holds macros; `text("differences", "caption", metric=metric)` is the text of one. Sentences are fixed forms
with slots. A slot that nobody fills is an error.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import jinja2

from analysis import formatting
from analysis.stats import ALPHA
from analysis.stats.shared_variance import FEWEST_RUNS

TEMPLATES = [Path(__file__).with_name("templates"), *sorted(Path(__file__).parents[1].glob("answers/*/"))]
FILTERS = {
    **{name: function for name, function in vars(formatting).items() if isinstance(function, FunctionType)},
    "mean_in": lambda variant, means: formatting.value(  # {{ variant|mean_in(means) }}: 72.4 %, as in the table
        means.of(variant), means.metric, formatting.shared_places(means.by_metric[means.metric].values(), means.metric)
    ),
    "paragraph": lambda text: " ".join(text.split()),  # one paragraph, of a macro that may leave empty lines
}
LEVELS = {
    "ALPHA": ALPHA,
    "FEWEST_RUNS": FEWEST_RUNS,
    "alpha": formatting.percent(ALPHA),  # 5 %
    "confidence": formatting.CONFIDENCE,  # 95 %
}
"""For all templates: the level of significance, the confidence level, and the fewest runs that share a spread."""


def text(template: str, macro: str, /, **slots: Any) -> str:
    """The text of a macro in TEMPLATE.txt.j2, with single spaces. Raises `jinja2.UndefinedError` for a missing slot."""
    return " ".join(str(getattr(_module(template), macro)(**slots)).split())


def paragraphs(template: str, macro: str, /, **slots: Any) -> list[str]:
    """The paragraphs of a macro, which empty lines separate; empty ones are left out."""
    parts = str(getattr(_module(template), macro)(**slots)).split("\n\n")
    return [shown for part in parts if (shown := " ".join(part.split()))]


def facts(template: str, macro: str, /, **slots: Any) -> tuple[tuple[str, str], ...]:
    """The terms of a macro and what each means: paragraphs of the form "Term: what it means"."""
    split = (part.partition(": ") for part in paragraphs(template, macro, **slots))
    return tuple((term, meaning) for term, _, meaning in split)


@cache
def _module(template: str) -> Any:
    return _environment().get_template(f"{template}.txt.j2").module


class _Templates(jinja2.FileSystemLoader):
    """A line that holds only a tag, such as `{% if looks %}`, is no empty line, so it does not end a paragraph."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        source, name, is_current = super().get_source(environment, template)
        return re.sub(r"(?m)^[ \t]*(\{% (?:(?!%\}).)* %\})\n", r"\1", source), name, is_current


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(loader=_Templates(TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters |= FILTERS
    environment.globals |= LEVELS
    return environment
