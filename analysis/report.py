"""Make the report of one study: ask every question, and put what they say in order."""

from collections.abc import Callable

from analysis import words
from analysis.figures.style import use_math
from analysis.findings import Findings
from analysis.questions import (
    conditions,
    cost,
    factors,
    looks,
    methods,
    metrics,
    models,
    notes,
    pairs,
    provenance,
    records,
    results,
    table8,
    tuning,
)
from analysis.runs.held_fixed import varying
from analysis.runs.runs import ENDED, Runs
from analysis.write.document import Document, Section, Warn

Question = Callable[[Findings], Section | None]
ORDER: tuple[Question, ...] = (
    notes.question,
    factors.question,  # first: then come the combinations of their levels
    results.question,
    pairs.question,
    table8.question,
    factors.untested,
    conditions.question,
    metrics.curves,
    tuning.question,
    cost.question,
    metrics.question,
    models.question,
    looks.question,
    methods.question,
    provenance.question,
    provenance.reproduce,
    records.question,
)
"""The order of the sections, of what they say in the answer, and of their warnings."""


def study_document(findings: Findings) -> Document:
    """The report of one study."""
    study, sections = findings.study, study_sections(findings)
    use_math(findings.variants.typed.values() if findings.variants.labelled else ())
    return Document(
        title=next((section.title for section in sections if section.title), name(study)),
        description=study.plan.description,
        summary=summary(findings),
        headline=headline(sections),
        warnings=warnings(sections),
        sections=sections,
        excluded=sorted(study.troubles.items()),
    )


def study_sections(findings: Findings) -> list[Section]:
    """What every question says of a study."""
    return [section for ask in ORDER if (section := ask(findings)) is not None]


def headline(sections: list[Section]) -> tuple[str, ...]:
    """The answer: what each question contributes to it, one paragraph for each sentence or group of sentences."""
    return tuple(said for section in sections for said in section.answer if said)


def warnings(sections: list[Section]) -> list[Warn]:
    """The warnings of all questions."""
    return [warning for section in sections for warning in section.warnings]


def name(study: Runs) -> str:
    """What was studied: `position: test accuracy by pos_embed`. It is the title of a report without a finding."""
    factors = words.listing([words.factor_name(factor, study.plan.names) for factor in study.factors])
    return f"{study.name}: {study.metric.label}{f' by {factors}' if factors else ''}"


def compared(study: Runs) -> str:
    """What all runs share: `ViT of width 32, 2 layers, 30 epochs, rate 0.005, 360 test images.`; empty for a table."""
    shared = {path: value for path, value in study.base.items() if path not in varying(study)}
    images = {int(n) for n in study.runs["test_images"].dropna()} if study.recorded else set()
    texts = {
        "model.embed_dim": "ViT of width {}",
        "model.depth": "{} layers",
        "train.epochs": "{} epochs",
        "optim.lr": "rate {:.3g}",
    }
    parts = [text.format(shared[path]) for path, text in texts.items() if path in shared]
    parts += [f"{words.count(n)} test images" for n in images if len(images) == 1]
    return f"{', '.join(parts)}." if parts and study.recorded else ""


def _levels(findings: Findings) -> str:
    """The levels of a baseline that the study gives a label, such as ` (pos_embed=learned-1d, depth=4)`."""
    study, baseline = findings.study, findings.variants.baseline
    if baseline not in study.plan.labels:
        return ""
    levels = study.levels(study.factors).loc[baseline]
    return f" ({', '.join(f'{words.factor_name(path, study.plan.names)}={level}' for path, level in levels.items())})"


def summary(findings: Findings) -> str:
    """The study in one line."""
    study, variants, conduct = findings.study, findings.variants, findings.conduct
    seeds = study.of(*ENDED)["variant"].value_counts().reindex(study.variants, fill_value=0)
    counted = words.seeds(seeds, findings.counted)
    data = "" if "data.name" in varying(study) else study.base.get("data.name", "")
    margin, tuned, looks = study.margin, study.plan.tuning, findings.policy.looks
    parts = [
        f"{name(study)}.",
        f"{words.plural(len(variants.names), 'variant')} × {counted}{f' on {data}' if data else ''}.",
        f"Baseline: {variants.name(variants.baseline)}{_levels(findings)}.",
        compared(study),
        ""
        if margin is None
        else f"Equivalent: the whole interval of a difference lies within ±{words.margin(margin, study.metric)}.",
        f"{conduct.finished} of {conduct.planned} runs finished.",
        f"An early look, at {len(looks.seeds)} seeds: looks are planned at {words.listing(looks.plan)}."
        * bool(looks and looks.next),
        f"Tuned for each variant in {tuning.trials_text(tuned)}: {words.listing([*tuned.space])}; "
        "intervals do not cover the luck of this choice."
        if tuned
        else "",
    ]
    return " ".join(filter(None, parts))
