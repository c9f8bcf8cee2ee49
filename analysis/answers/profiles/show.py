"""The sections on few-shot accuracies, other image sizes, and shifted or permuted images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.answers.answer import Answer, Page
from analysis.answers.columns import mean_column, variant_table
from analysis.answers.profiles.compute import Profile
from analysis.figures.labels import Styles
from analysis.figures.line_figures import draw_profile
from analysis.figures.style import Plot
from analysis.results.variants import Variants
from analysis.write.document import Section, present
from analysis.write.table import Table
from analysis.write.text import facts, text
from experiments.metric import PERMUTED

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults


def profile_sections(profiles: list[Profile], variants: Variants, styles: Styles) -> list[Section]:
    """Return a section for each heading, with the figure and the table of each profile."""
    sections: dict[str, Section] = {}
    for profile in profiles:
        heading = text("profiles", "heading", profile=profile)
        section = sections.setdefault(heading, Section(profile.name, heading))
        plot = _plot(profile, styles) if len(profile.points) > 1 else None
        section.items.extend(present(plot, profile_table(profile, variants)))
    return list(sections.values())


def _plot(profile: Profile, styles: Styles) -> Plot:
    words = {name: text("profiles", name, profile=profile) for name in ("unit", "axis", "values")}
    caption = text("profiles", "figure", profile=profile, grey=styles.some_grey)
    return Plot(profile.name, draw_profile(profile, styles, **words), caption)


def profile_table(profile: Profile, variants: Variants) -> Table:
    """Return the table of a metric under several conditions; its further metrics are details."""
    rows = {v: {str(metric): means[v] for metric, means in profile.means.items()} for v in variants.names}
    folded = [metric for metric in profile.details if metric != PERMUTED]
    columns = (mean_column(metric, metric, detail=metric in folded) for metric in profile.means)
    return variant_table(profile.name, text("profiles", "caption", profile=profile), variants, rows, columns)


def answer(results: StudyResults, page: Page) -> Answer:
    """Few-shot accuracies, other image sizes, shifted and permuted images."""
    parts = results.profiles, results.variants, page.styles
    return Answer(lambda: profile_sections(*parts), methods=facts("profiles", "methods", profiles=results.profiles))
