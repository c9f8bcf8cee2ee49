"""Make the report of one study: which questions it answers, in which order. A new question is a line in `ANSWERS`."""

from collections.abc import Callable
from pathlib import Path

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.conduct import show as conduct
from analysis.answers.conduct.provenance import provenance, reproduce, varying
from analysis.answers.cost import show as cost
from analysis.answers.factors import show as factors
from analysis.answers.images import show as images
from analysis.answers.metrics import show as metrics
from analysis.answers.models import show as models
from analysis.answers.pairs import show as pairs
from analysis.answers.pairs.headline import without_comparison
from analysis.answers.profiles import show as profiles
from analysis.answers.published import show as published
from analysis.answers.study_results import StudyResults
from analysis.answers.trends import show as trends
from analysis.answers.tuning import show as tuning
from analysis.answers.variants import show as variants
from analysis.figures.labels import study_styles
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.write.document import Document, Facts, Section
from analysis.write.text import paragraphs, text
from experiments.runs.history import BY_VALUE

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware
ANSWERS: tuple[Callable[[StudyResults, Page], Answer], ...] = (
    factors.answer,  # first: then come the combinations of their levels
    variants.answer,
    pairs.answer,
    factors.untested,
    published.answer,
    profiles.answer,
    trends.answer,
    metrics.curves,
    tuning.answer,
    cost.answer,
    images.answer,
    metrics.answer,
    models.answer,
    conduct.answer,
)
"""The questions of a report. Their sections stand in this order, and their paragraphs in the headline, too."""


def study_document(
    results: StudyResults, out: Path | None = None, inside: bool = False, skip_unreadable: bool = False
) -> Document:
    """Make the report of one study. `out`: the folder that it goes to. `inside`, `skip_unreadable`: see `Page`."""
    study = results.study
    page = Page(study_styles(results.variants, results.means), out, inside, skip_unreadable)
    answers = [ask(results, page) for ask in ANSWERS]
    runs, own = metrics.runs(results, page), [fact for answer in answers for fact in answer.methods]
    sections = [
        *(section for answer in answers for section in answer.sections()),
        Section("methods", "Methods", [Facts((*conduct.methods(results), *own))]),
        provenance(study),
        reproduce(study),
        *runs.sections(),
    ]
    return Document(
        title=title(study),
        description=study.plan.description,
        summary=summary(results),
        headline=_headline(results, answers),
        warnings=study_warnings(results),
        sections=[section for section in sections if section.items or section.paragraphs],
        excluded=sorted(study.troubles.items()),
        frames={name: frame for answer in (runs, *answers) for name, frame in answer.frames.items()},
    )


def study_headline(results: StudyResults) -> tuple[str, ...]:
    """The answer of the study."""
    page = Page(study_styles(results.variants, results.means))
    return _headline(results, [ask(results, page) for ask in ANSWERS])


def _headline(results: StudyResults, answers: list[Answer]) -> tuple[str, ...]:
    said = without_comparison(results) or [text for answer in answers for text in answer.headline]
    return tuple(filter(None, said))


def study_warnings(results: StudyResults) -> list[str]:
    """The warnings on the study, the most important first."""
    tuned = () if results.tuning is None else tuning.tuning_warnings(results.tuning)
    slowest = results.cost["slowest"].dropna()
    slow = (slowest.idxmax(), slowest.max()) if slowest.max() > SLOW else None
    return paragraphs("warnings", "warnings", conduct=results.conduct, tuning=tuned, slow=slow, comparison=BY_VALUE)


def title(study: RunsTable) -> str:
    """Return the report's title."""
    factors = [formatting.factor_name(factor, study.names) for factor in study.factors]
    return text("study", "title", study=study, factors=factors)


def summary(results: StudyResults) -> str:
    """Describe the study in one line."""
    study = results.study
    seeds = study.of(*ENDED)["variant"].value_counts().reindex(study.variants, fill_value=0)
    data = "" if "data.name" in varying(study) else study.base.get("data.name", "")
    budget = results.tuning.plan.budget if results.tuning else 0
    slots = {"variants": results.variants, "conduct": results.conduct}
    return text("study", "summary", seeds=seeds, data=data, budget=budget, **slots)
