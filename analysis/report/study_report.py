"""Make the report of one study: which sections it has and in which order. Results in, a document out."""

from __future__ import annotations

from pathlib import Path

from analysis import formatting
from analysis.figures.labels import Styles, study_styles
from analysis.figures.style import Plot
from analysis.report.document import Document, Section, present
from analysis.report.headline import headline
from analysis.report.methods import methods
from analysis.report.sections.claims import claims_table
from analysis.report.sections.cost import cost_plot, cost_section
from analysis.report.sections.curves import curves_section
from analysis.report.sections.differences import MOST_PAIR_ROWS, differences, differences_plot, pairs_table
from analysis.report.sections.factors import factors_section
from analysis.report.sections.images import images_section, with_pictures
from analysis.report.sections.metrics import metrics
from analysis.report.sections.paper import paper_table
from analysis.report.sections.probes import probe_columns
from analysis.report.sections.profiles import profile_sections
from analysis.report.sections.provenance import provenance, varying
from analysis.report.sections.reproduce import reproduce
from analysis.report.sections.runs import runs_section
from analysis.report.sections.trends import trend_section
from analysis.report.sections.tuning import tuning_section
from analysis.report.sections.variants import accuracy_plot, variants_table
from analysis.report.table import Table
from analysis.report.warnings import warnings
from analysis.results.study_results import StudyResults
from analysis.sources.runs_table import RunsTable


def study_document(
    results: StudyResults, models: Section | None = None, out: Path | None = None, with_images: bool = False
) -> Document:
    """Make the report of one study.

    `models` is the section of model figures (see `sections.models`), `out` the folder that the report goes to. With
    `with_images`, the dataset is loaded to show test images, if the records hold test predictions.
    """
    study = results.study
    pairs = pairs_table(results.variants, results.comparisons)
    linked = study.folder is not None and (out is None or out.absolute().parent == study.folder.absolute())
    return Document(
        title=title(study),
        description=study.plan.description,
        summary=summary(results),
        headline=headline(results),
        warnings=warnings(results),
        sections=[
            *_sections(results, pairs, models, with_images),
            runs_section(study, results.variants, results.means, linked),
        ],
        excluded=sorted(study.troubles.items()),
        frames={
            "runs": study.runs,
            "curves": study.curves,
            **({} if results.tuning is None else {"tuning-trials": results.tuning.trials}),
            **({"pairs": pairs.data} if pairs is not None and len(pairs.frame) > MOST_PAIR_ROWS else {}),
        },
    )


def title(study: RunsTable) -> str:
    """Return the report's title."""
    factors = formatting.listing([formatting.factor_name(factor, study.names) for factor in study.factors])
    return f"{study.name}: {study.metric.label}" + (f" by {factors}" if factors else "")


def summary(results: StudyResults) -> str:
    """Describe the study in one line."""
    study = results.study
    planned = study.runs[study.runs["status"] != "unplanned"]
    seeds = formatting.plural(planned["seed"].nunique(), "seed")
    data = study.base.get("data.name") if "data.name" not in varying(study) else None
    return (
        f"{formatting.plural(len(results.variants.names), 'variant')} × {seeds}{f' on {data}' if data else ''}. "
        f"Baseline: {formatting.quoted(study.baseline)}. "
        f"Equivalence margin: ±{formatting.margin(study.metric, study.margin)}. "
        f"{len(study.of('finished'))} of {len(planned)} planned runs finished."
        f"{_tuned(results)}"
    )


def _tuned(results: StudyResults) -> str:
    if results.tuning is None:
        return ""
    return f" Each variant was tuned by {formatting.plural(results.tuning.plan.budget, 'trial')}."


def _plots(results: StudyResults, styles: Styles) -> list[Plot]:
    """The figures of sections that are not yet in `sections`."""
    found = [
        accuracy_plot(results.variants, results.means, results.conduct, styles),
        differences_plot(results.variants, results.comparisons, results.policy, styles),
        cost_plot(results.cost, results.means, styles),
    ]
    return [plot for plot in found if plot is not None]


def _sections(results: StudyResults, pairs: Table | None, models: Section | None, with_images: bool) -> list[Section]:
    """Every section but the list of runs, in order; empty sections are left out.

    A study of several factors starts with its factors; the combinations of their levels come after them.
    """
    styles = study_styles(results.variants, results.means)
    plots = {plot.name: plot for plot in _plots(results, styles)}
    factors = factors_section(results.factors, results.variants, results.means, results.policy)
    heading = "Results" if results.factorial is None else "Combinations"
    variants, means, compared = results.variants, results.means, results.comparisons
    table = variants_table(
        variants,
        means,
        compared,
        results.cost,
        results.conduct,
        results.policy,
        probe_columns(results.published.expected, means),
    )
    main = Section("result", heading, present(table, plots.get("accuracy")))
    difference = differences(variants, compared, pairs, results.policy, plots.get("differences"))
    sections = [
        *([main, difference, factors] if results.factorial is None else []),
        *([factors, main, difference] if results.factorial is not None else []),
        Section(
            "paper",
            "Published figures: ViT paper, Table 8",
            present(paper_table(results.published.paper, means, variants, compared, results.policy)),
        ),
        Section(
            "claims",
            "Published claims",
            present(
                claims_table(
                    results.published.claims, compared.pairs, variants, results.policy, results.tuning is not None
                )
            ),
        ),
        *profile_sections(results.profiles, variants, styles),
        *(trend_section(trend, styles) for trend in results.trends),
        curves_section(results.curves, styles),
        tuning_section(results.tuning, variants, styles) if results.tuning is not None else None,
        cost_section(variants, results.cost, plots.get("cost")),
        _images(results, styles, with_images),
        metrics(variants, means, results.conduct),
        models,
        methods(results),
        provenance(results.study),
        reproduce(results.study),
    ]
    return [section for section in sections if section is not None and (section.items or section.paragraphs)]


def _images(results: StudyResults, styles: Styles, pictures: bool) -> Section | None:
    images = results.images
    if images is None:
        return None
    section = images_section(images, results.variants, results.policy)
    return with_pictures(section, images, results.study, styles) if pictures else section
