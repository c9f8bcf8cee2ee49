"""Collect the content of a study's pages from its report."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import formatting
from analysis.figures.style import INK, PALETTE, Plot
from analysis.report.document import Code, Document, Facts, Section
from analysis.report.render import Table, markdown, plain_lines, to_markdown
from analysis.sources.study import ENDED, Study
from analysis.wandb_pages.content import Block, Content, RunEntry
from experiments.metric import Metric

MOST_RUNS = 500  # in the list of runs; the sets of runs beside the plots hold all


def collect(study: Study, document: Document) -> Content:
    """Make the content of a study's pages from its report."""
    document = document.with_notes_once()
    return Content(
        study=study.name,
        title=formatting.plain(document.title),
        metric=str(study.metric),
        axes=_axes(study),
        colours=_colours(study),
        opening=[formatting.plain(text) for text in (document.description, document.summary) if text],
        headline=[markdown(text, starts_line=True) for text in document.headline],
        notes=[formatting.plain(text) for text in document.warnings],
        blocks=[block for section in document.sections for block in _blocks(section)],
        columns=[
            markdown(name) for name in ("run", "variant", "seed", "status", f"{study.metric.label}{study.metric.unit}")
        ],
        runs=_runs(study),
    )


def _axes(study: Study) -> list[tuple[str, str]]:
    """Linked settings are an axis each."""
    axes = {}
    for factor in study.factors:
        name, paths = formatting.factor_name(factor, study.names), factor.split("+")
        for path in paths:
            axes[path] = name if len(paths) == 1 else f"{name}: {path.rpartition('.')[2]}"
    return list(axes.items())


def _colours(study: Study) -> dict[str, str]:
    """The variants' colours in our figures; none where some variants have no colour of their own."""
    others = [variant for variant in study.variants if variant != study.baseline]
    if len(study.variants) > len(PALETTE):
        return {}
    return {study.baseline: INK, **dict(zip(others, PALETTE))}


def _blocks(section: Section) -> Iterator[Block]:
    yield Block("heading", formatting.plain(section.heading))
    for paragraph in section.paragraphs:
        yield Block("text", formatting.plain(paragraph))
    for item in section.items:
        match item:
            case Table():
                yield Block("text", formatting.plain(item.caption))
                yield Block("markdown", to_markdown(item))
            case Plot():
                yield Block("figure", item.name, formatting.plain(item.caption))
            case Facts():
                lines = [f"- {markdown(name, starts_line=True)}: {markdown(value)}" for name, value in item.facts]
                yield from [Block("text", formatting.plain(item.heading))] if item.heading else []
                yield Block("markdown", "\n".join(lines))
            case Code():
                yield Block("code", plain_lines(item.text))


def _runs(study: Study) -> list[RunEntry]:
    rows = study.runs[study.runs["status"] != "unplanned"].head(MOST_RUNS)
    columns = ("run_id", "run", "variant", "seed", "status", study.metric)
    entries = []
    for run_id, *texts, value in zip(*(rows[column] for column in columns), strict=True):
        cells = [markdown(str(text)) for text in (*texts, _shown(study.metric, value))]
        entries.append(RunEntry(str(run_id), str(texts[0]), texts[-1] in ENDED, cells))
    return entries


def _shown(metric: Metric, value: float) -> str:
    return formatting.number(value * metric.scale, 2 if metric.is_share else 4)
