"""Fill the templates that hold the wording of reports: `templates/*.txt.j2`, one for each section.

A template holds macros; `text("differences", "caption", metric=metric)` is the text of one. Sentences are fixed forms with
slots. A slot that nobody fills is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jinja2

from analysis import formatting
from analysis.stats import ALPHA
from analysis.stats.shared_variance import FEWEST_RUNS

FILTERS = {
    "points": formatting.by_points,  # {{ difference|points(metric) }}: 23.6 points
    "points_range": formatting.range_text,  # {{ differences|points_range(metric) }}: 22.5 to 23.6 points
    "interval": formatting.interval_text,  # {{ difference|interval(metric) }}: 95 % CI 20.2 to 27.0
    "value": formatting.value_text,  # {{ mean|value(metric) }}: 72.4 %
    "mean_in": lambda variant, means: formatting.value_text(  # {{ variant|mean_in(means) }}: 72.4 %, as in the table
        means.of(variant), means.metric, formatting.shared_places(means.by_metric[means.metric].values(), means.metric)
    ),
    "places": formatting.shared_places,  # {{ differences|places(metric) }}: the decimals of a column or a sentence
    "listing": lambda words, last="and": formatting.listing([str(word) for word in words], last),
    "a": formatting.article,  # {{ metric.label|a }}: a test accuracy
    "quoted": formatting.quoted,
    "names": lambda variants: formatting.listing([formatting.quoted(variant) for variant in variants]),
    "plural": formatting.plural,  # {{ n|plural("seed") }}: 5 seeds
    "seeds": formatting.seeds,  # {{ [5, 4]|seeds }}: 4 to 5 seeds
    "margin": lambda value, metric: formatting.margin(metric, value),  # {{ study.margin|margin(metric) }}: 1 point
    "p_equals": lambda p: f"p = {formatting.p_value(p)}".replace("= <", "<"),  # {{ 0.0001|p_equals }}: p < 0.001
    "number": formatting.number,
    "percent": formatting.percent,
    "count": formatting.count,
    "duration": formatting.seconds,  # {{ 720|duration }}: 12 min
    "paragraph": lambda text: " ".join(text.split()),  # one paragraph, of a macro that may leave empty lines
    "setting": formatting.setting,
}
LEVELS = {
    "ALPHA": ALPHA,
    "FEWEST_RUNS": FEWEST_RUNS,
    "alpha": formatting.percent(ALPHA),  # 5 %
    "confidence": formatting.CONFIDENCE,  # 95 %
    "one_sided_confidence": formatting.percent(1 - 2 * ALPHA),  # 90 %
}
"""For all templates: the level of significance, its confidence levels, and the fewest runs that share a spread."""


def text(template: str, macro: str, /, **slots: Any) -> str:
    """The text of a macro in `templates/TEMPLATE.txt.j2`, with single spaces. Raises `jinja2.UndefinedError` for a missing slot."""
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


class _Templates(jinja2.PackageLoader):
    """A line that holds only a tag, such as `{% if looks %}`, is no empty line, so it does not end a paragraph."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool] | None]:
        source, name, is_current = super().get_source(environment, template)
        return re.sub(r"(?m)^[ \t]*(\{% (?:(?!%\}).)* %\})\n", r"\1", source), name, is_current


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=_Templates("analysis.report"), undefined=jinja2.StrictUndefined, autoescape=False
    )
    environment.filters |= FILTERS
    environment.globals |= LEVELS
    return environment
