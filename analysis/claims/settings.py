"""The settings of each variant by dotted path, and which variants a published statement can compare."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from analysis.sources.settings import PLACES
from analysis.stats.comparisons import Values
from experiments.data.catalogue import DATASETS
from experiments.study import StudyPlan
from vit.registry import REGISTRY

KIND, SITE, HEAD, SHUFFLED = "model.pos_embed", "model.pos_site", "model.head", "data.shuffle_patches"


def site_of(kind: str, site: str | None = None) -> str:
    """The site where a kind acts: `site`, or the kind's natural site where none is set ("stem" for an unknown kind)."""
    if site is not None and site != "natural":
        return site
    return REGISTRY[kind].sites[0] if kind in REGISTRY else "stem"


def variant_settings(study: StudyPlan, values: Values) -> dict[str, dict[str, Any]]:
    """Variant -> all its settings by dotted path, with the site resolved and those that were tuned for it.

    Variants without values and controls are left out.
    """
    levels = {run.variant: run.levels for run in study.runs}
    settings = {
        variant: flat_settings(study.base, levels[variant] | study.tuned_for(variant))
        for variant in values
        if variant in levels
    }
    return {variant: own for variant, own in settings.items() if not is_control(own)}


def is_control(settings: Mapping[str, Any]) -> bool:
    """Whether runs with these settings say nothing about a published figure: shuffled or generated images."""
    dataset = DATASETS.get(settings.get("data.name", ""))
    return bool(settings.get(SHUFFLED)) or (dataset is not None and dataset.source == "generated")


def flat_settings(config: Mapping, levels: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration, overridden by `levels`, as dotted path -> value. The seed and file locations are left out."""
    sections = {section: inner for section, inner in config.items() if isinstance(inner, Mapping)}
    flat = {f"{section}.{field}": value for section, inner in sections.items() for field, value in inner.items()}
    flat = {path: value for path, value in (flat | dict(levels)).items() if path not in PLACES}
    if KIND in flat:
        flat[SITE] = site_of(flat[KIND], flat.get(SITE))
    return flat


def differ_only(a: Mapping[str, Any], b: Mapping[str, Any], path: str, tuned: Collection[str] = ()) -> bool:
    """Whether two variants are equal but for `path` and the `tuned` settings.

    Kinds are compared at one site, or each at its natural site.
    """
    if any(a.get(other) != b.get(other) for other in (a.keys() | b.keys()) - {path, SITE, *tuned}):
        return False
    natural = all(settings.get(SITE) == site_of(settings.get(KIND, "")) for settings in (a, b))
    return path == SITE or a.get(SITE) == b.get(SITE) or (path == KIND and natural)
