"""The section of the figures of trained models."""

import re
from collections.abc import Sequence
from operator import eq

from analysis.answers.answer import Answer, Page
from analysis.answers.study_results import StudyResults
from analysis.figures import model_figures as figures
from analysis.figures.inspect import ModelInspection, inspect_models
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.sources.runs_table import RunsTable
from analysis.write.document import Section
from analysis.write.text import paragraphs, text


def model_section(study: RunsTable, best: str | None, styles: Styles, skip_unreadable: bool = False) -> Section:
    """Make the section with figures of trained models.

    Imports torch where there are checkpoints. Checkpoints that cannot be used are named in the section.
    """
    models, missing = inspect_models(study, styles.coloured, skip_unreadable)
    plots = _position_plots(models)
    if distances := {model.variant: model.distance for model in models if model.distance is not None}:
        alt = text("models", "mean_distances", distances=distances)
        figure = figures.attention_distance(distances, styles)
        plots.append(Plot("attention-distance", figure, text("models", "distance"), alt))
    plots += [_overlay(model) for model in models if model.variant in (best, study.baseline)]
    notes = [text("models", "examples")] if models else []
    return Section(
        "model-figures", "Model figures", list(plots), notes + paragraphs("models", "missing", reasons=missing)
    )


def _position_plots(models: Sequence[ModelInspection]) -> list[Plot]:
    """The embeddings' similarity, what they add to attention, and their values, each of the models that have it."""
    plots = []
    for kind in ("similarity", "logits", "table"):
        values = {model.variant: getattr(model, kind) for model in models if getattr(model, kind) is not None}
        if values:
            alt = text("models", "shown", variants=list(values))
            plots.append(Plot(f"position-{kind}", figures.heat_maps(values, kind), text("models", kind), alt))
    return plots


def _overlay(model: ModelInspection) -> Plot:
    """Test images with the attention of the model's pooled tokens."""
    alt = text("models", "correct", model=model, count=sum(map(eq, model.truth, model.predicted)))
    # a user can rename a run's folder, and any file system accepts these characters
    run = re.sub(r"[^A-Za-z0-9_=.,-]", "-", model.run)
    return Plot(f"attention-{run}", figures.overlay(model), text("models", "overlay", model=model), alt)


def answer(results: StudyResults, page: Page) -> Answer:
    """What trained models look like inside; nothing unless the page shows them and the source has checkpoints."""
    if not page.inside or results.study.folder is None:
        return Answer()
    return Answer(lambda: [model_section(results.study, results.means.best, page.styles, page.skip_unreadable)])
