"""Make the report of one study: which sections it has and in which order. Results in, a document out.

The results are taken apart here: a section receives only what it shows. A new section is a line in `study_document`.
"""

from __future__ import annotations

import math
from pathlib import Path

from analysis import formatting
from analysis.figures.labels import study_styles
from analysis.report.document import Document, Facts, Section, present
from analysis.report.sections.claims import claims_table, evidence, paper_table, probe_columns
from analysis.report.sections.cost import cost_section
from analysis.report.sections.differences import MOST_PAIR_ROWS, differences, differences_plot, pairs_table
from analysis.report.sections.factors import factor_paragraphs, factors_section
from analysis.report.sections.headline import headline
from analysis.report.sections.images import images_section
from analysis.report.sections.metrics import curves_section, metrics_section, runs_section
from analysis.report.sections.profiles import profile_sections
from analysis.report.sections.provenance import provenance, reproduce, study_file, varying
from analysis.report.sections.trends import trend_section
from analysis.report.sections.tuning import tuning_section, tuning_warnings
from analysis.report.sections.variants import accuracy_plot, variants_table
from analysis.report.text import facts, paragraphs, text
from analysis.results.conduct import STATUSES
from analysis.results.study_results import StudyResults
from analysis.sources.runs_table import RunsTable
from experiments.runs.record import COMPARISON

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware


def study_document(
    results: StudyResults, models: Section | None = None, out: Path | None = None, with_images: bool = False
) -> Document:
    """Make the report of one study.

    `models` is the section of model figures (see `sections.models`), `out` the folder that the report goes to. With
    `with_images`, the dataset is loaded to show test images, if the records hold test predictions.
    """
    study, policy, variants, means = results.study, results.policy, results.variants, results.means
    compared, published, cost, conduct = results.comparisons, results.published, results.cost, results.conduct
    styles, pairs = study_styles(variants, means), pairs_table(variants, compared)
    linked = study.folder is not None and (out is None or out.absolute().parent == study.folder.absolute())

    expected = probe_columns(published.expected, means)
    main = variants_table(variants, means, compared, cost, conduct, policy, expected)
    folded = not study.plan.command or study_file(study.plan.command) is not None  # no built-in study
    paper = paper_table(published.paper, means, variants, compared, policy, folded)
    tuned, training = results.tuning is not None, text("study", "training", study=study)
    claims = claims_table(published.claims, variants, compared, policy, tuned, training, folded)
    plot = differences_plot(variants, compared, policy, styles)
    factors = factors_section(results.factors, variants, means, policy)
    several = results.factors.model is not None  # then the factors come before the combinations of their levels
    sections = [
        factors if several else None,
        Section(
            "result", "Combinations" if several else "Results", [main, accuracy_plot(variants, means, conduct, styles)]
        ),
        differences(variants, compared, pairs, policy, plot),
        factors if not several else None,
        Section("paper", "Published figures: ViT paper, Table 8", present(paper)),
        Section("claims", "Published claims", present(claims)),
        *profile_sections(results.profiles, variants, styles),
        *(trend_section(trend, styles) for trend in results.trends),
        curves_section(results.curves, styles),
        results.tuning and tuning_section(results.tuning, variants, styles),
        cost_section(variants, cost, means, styles),
        results.images and images_section(results.images, variants, policy, study if with_images else None, styles),
        metrics_section(variants, means),
        models,
        _methods(results),
        provenance(study),
        reproduce(study),
        runs_section(study, variants, means, linked),
    ]
    return Document(
        title=title(study),
        description=study.plan.description,
        summary=summary(results),
        headline=study_headline(results),
        warnings=study_warnings(results),
        sections=[section for section in sections if section and (section.items or section.paragraphs)],
        excluded=sorted(study.troubles.items()),
        frames={
            "runs": study.runs,
            "curves": study.curves,
            **({"tuning-trials": results.tuning.trials} if results.tuning else {}),
            **({"pairs": pairs.data} if pairs and len(pairs.frame) > MOST_PAIR_ROWS else {}),
        },
    )


def study_headline(results: StudyResults) -> tuple[str, ...]:
    """The answer of the study."""
    return headline(
        results.variants,
        results.means,
        results.comparisons,
        results.policy,
        results.conduct,
        factors=factor_paragraphs(results.factors, results.variants, results.policy),
        further=[
            *paragraphs("factors", "skipped", reason=results.factors.skipped_reason),
            *(
                text("trends", "spread", trend=trend)
                for trend in results.trends
                if math.isfinite(trend.spread.change.p)
            ),
        ],
        claims=[(claim.claim.statement, claim.outcome, evidence(claim)) for claim in results.published.claims],
    )


def study_warnings(results: StudyResults) -> list[str]:
    """The warnings on the study, the most important first."""
    tuning = () if results.tuning is None else tuning_warnings(results.tuning)
    slowest = results.cost["slowest"].dropna()
    slow = (slowest.idxmax(), slowest.max()) if slowest.max() > SLOW else None
    return paragraphs("warnings", "warnings", conduct=results.conduct, tuning=tuning, slow=slow, comparison=COMPARISON)


def _methods(results: StudyResults) -> Section:
    slots = {"variants": results.variants, "comparisons": results.comparisons, "conduct": results.conduct}
    terms = facts("methods", "methods", **slots, policy=results.policy, images=results.images is not None)
    further = {"factors": results.factors, "profiles": results.profiles, "trends": results.trends}
    of_sections = [fact for name, answer in further.items() for fact in facts(name, "methods", **{name: answer})]
    return Section("methods", "Methods", [Facts((*terms, *of_sections))])


def title(study: RunsTable) -> str:
    """Return the report's title."""
    factors = [formatting.factor_name(factor, study.names) for factor in study.factors]
    return text("study", "title", study=study, factors=factors)


def summary(results: StudyResults) -> str:
    """Describe the study in one line."""
    study = results.study
    seeds = study.of(*STATUSES).groupby("variant")["seed"].nunique().tolist()
    data = "" if "data.name" in varying(study) else study.base.get("data.name", "")
    budget = results.tuning.plan.budget if results.tuning else 0
    slots = {"variants": results.variants, "conduct": results.conduct}
    return text("study", "summary", seeds=seeds, data=data, budget=budget, **slots)
