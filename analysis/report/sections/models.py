"""The section of the figures of trained models."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.figures import model_figures as figures
from analysis.figures.inspect import ModelInspection, inspect_models
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report.document import Item, Section
from analysis.report.text import paragraphs, text
from analysis.sources.runs_table import RunsTable


def model_section(study: RunsTable, best: str | None, styles: Styles, skip_unreadable: bool = False) -> Section | None:
    """Make the section with figures of trained models; None where the source has no checkpoints.

    Imports torch where there are checkpoints. Checkpoints that cannot be used are named in the section.
    """
    if study.folder is None:
        return None
    models, missing = inspect_models(study, styles.coloured, skip_unreadable)
    notes = [text("models", "examples")] if models else []
    overlays = [_overlay(model) for model in models if model.variant in (best, study.baseline)]
    plots: list[Item] = [*_position_plots(models), *_distance_plot(models, styles), *overlays]
    return Section("model-figures", "Model figures", plots, notes + paragraphs("models", "missing", reasons=missing))


def _position_plots(models: Sequence[ModelInspection]) -> list[Plot]:
    """The embeddings' similarity, what they add to attention, and their values, each of the models that have it."""
    plots = []
    for kind in ("similarity", "logits", "table"):
        values = {model.variant: getattr(model, kind) for model in models if getattr(model, kind) is not None}
        if values:
            caption, alt = (text("models", macro, variants=list(values)) for macro in (kind, f"{kind}_alt"))
            plots.append(Plot(f"position-{kind}", figures.heat_maps(values, kind), caption, alt))
    return plots


def _distance_plot(models: Sequence[ModelInspection], styles: Styles) -> list[Plot]:
    distances = {model.variant: model.distance for model in models if model.distance is not None}
    caption, alt = text("models", "distance"), text("models", "distance_alt", distances=distances)
    return (
        [Plot("attention-distance", figures.attention_distance(distances, styles), caption, alt)] if distances else []
    )


def _overlay(model: ModelInspection) -> Plot:
    """Test images with the attention of the model's pooled tokens."""
    correct = sum(t == p for t, p in zip(model.truth, model.predicted))
    caption, alt = text("models", "overlay", model=model), text("models", "overlay_alt", model=model, correct=correct)
    # a user can rename a run's folder, and any file system accepts these characters
    run = "".join(c if c.isascii() and (c.isalnum() or c in "-_=.,") else "-" for c in model.run)
    return Plot(f"attention-{run}", figures.overlay(model), caption, alt)
