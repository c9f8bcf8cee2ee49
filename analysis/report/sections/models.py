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
    """A figure of the embeddings' similarity, one of what they add to attention, and one of their values, where models have these."""
    kinds = {
        "similarity": ("Similarity of position embeddings", "position-similarity"),
        "logits": ("Effect of position on attention", "position-logits"),
        "table": ("Values of the position embeddings", "position-table"),
    }
    plots = []
    for kind, (subject, name) in kinds.items():
        values = {model.variant: getattr(model, kind) for model in models if getattr(model, kind) is not None}
        if values:
            alt = text("models", "heat_maps_alt", subject=subject, variants=list(values))
            plots.append(Plot(name, figures.heat_maps(values, kind), text("models", f"{kind}_caption"), alt))
    return plots


def _distance_plot(models: Sequence[ModelInspection], styles: Styles) -> list[Plot]:
    distances = {model.variant: model.distance for model in models if model.distance is not None}
    if not distances:
        return []
    means = {variant: distance.mean(1).tolist() for variant, distance in distances.items()}
    caption, alt = text("models", "distance_caption"), text("models", "distance_alt", distances=means)
    return [Plot("attention-distance", figures.attention_distance(distances, styles), caption, alt)]


def _overlay(model: ModelInspection) -> Plot:
    """Test images with the attention of the model's pooled tokens."""
    count, correct = len(model.images), sum(t == p for t, p in zip(model.truth, model.predicted))
    caption = text("models", "overlay_caption", variant=model.variant, run=model.run, count=count, pool=model.pool)
    alt = text("models", "overlay_alt", variant=model.variant, count=count, correct=correct)
    return Plot(_file(f"attention-{model.run}"), figures.overlay(model), caption, alt)


def _file(name: str) -> str:
    """A name that any file system accepts. Run folders have such names, but a user can rename them."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_=.,") else "-" for c in name)
