"""The W&B report of a study: headline, tables and figures of our report, plots of the runs, links to the runs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
from wandb_workspaces.reports.v2.interface import BlockTypes, PanelTypes

from analysis.wandb_pages import panels
from analysis.wandb_pages.content import Block, Content, RunEntry

FIGURES = "report"  # the figures are logged as report/NAME
MOST_TITLE = 128  # characters, a limit of W&B
FULL_WIDTH, HEIGHT = 24, 12  # of a panel, in W&B's grid

SAFE = ":/?=&-._~"  # characters of a URL that stay as they are


def report(
    content: Content, entity: str, project: str, figures_run: str | None = None, links: Mapping[str, str] | None = None
) -> wr.Report:
    """Make the report of a study. It is not saved.

    `figures_run`: the id of the W&B run that holds the figures. `links`: run id -> URL of its W&B run. Without both, no
    server is asked.
    """
    runs = wr.Runset(name=content.study, filters=expr.And(expr.Metric("JobType") == content.study), groupby=["Group"])
    figures = wr.Runset(name="figures", filters=expr.And(expr.Metric("ID") == (figures_run or "figures")))
    if figures_run:
        for runset in (runs, figures):
            runset.entity, runset.project = entity, project
    blocks: list[BlockTypes] = [*_opening(content), *_plots(content, runs)]
    for index, block in enumerate(content.blocks):
        blocks += _converted(block, figures, f"{content.study}/{index}")
    blocks += _runs(content, links or {})
    panels.with_fixed_ids([runs, figures], f"{content.study}/sets of runs")
    return wr.Report(
        entity=entity,
        project=project,
        title=content.title[:MOST_TITLE],
        description="Made by vit-report. The next vit-report --wandb replaces all of it.",
        width="fluid",
        blocks=blocks,
    )


def _opening(content: Content) -> list[BlockTypes]:
    first, *others = content.headline
    return [
        *map(wr.P, content.opening),
        wr.MarkdownBlock("\n\n".join([f"**{first}**", *others])),
        *(wr.CalloutBlock(f"Note: {note}") for note in content.notes),
        wr.CalloutBlock(panels.NOTE),
    ]


def _plots(content: Content, runs: wr.Runset) -> list[BlockTypes]:
    shown: list[PanelTypes] = [
        panels.final_metric(content),
        *panels.curves()[:2],
        panels.parallel_coordinates(content),
        *panels.against_cost(content),
        wr.RunComparer(diff_only="split"),
    ]
    panels.with_fixed_ids(shown, f"{content.study}/report")
    return [wr.H2("Runs in W&B"), wr.PanelGrid(runsets=[runs], panels=shown)]


def _converted(block: Block, figures: wr.Runset, name: str) -> list[BlockTypes]:
    """Only `markdown` is read as markup by W&B; everything else is text."""
    match block.kind:
        case "heading":
            return [wr.H2(block.text)]
        case "text":
            return [wr.P(block.text)]
        case "markdown":
            return [wr.MarkdownBlock(block.text)]
        case "code":
            return [wr.CodeBlock(block.text, language=None)]
        case "figure":
            layout = wr.Layout(w=FULL_WIDTH, h=HEIGHT)
            panel = wr.MediaBrowser(media_keys=[f"{FIGURES}/{block.text}"], num_columns=1, layout=layout)
            panels.with_fixed_ids([panel], name)
            return [wr.PanelGrid(runsets=[figures], panels=[panel], hide_run_sets=True), wr.P(block.caption)]


def _runs(content: Content, links: Mapping[str, str]) -> list[BlockTypes]:
    """The list of runs, each with a link where W&B has it."""
    rows = [content.columns, ["---"] * len(content.columns), *(_cells(run, links) for run in content.runs)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    missing = links and any(run.ended and run.run_id not in links for run in content.runs)
    note = "Runs without a link are not in W&B; vit-sweep sync sends them."
    return [wr.H2("Runs"), *([wr.P(note)] if missing else []), wr.MarkdownBlock(table)]


def _cells(run: RunEntry, links: Mapping[str, str]) -> list[str]:
    if run.run_id not in links:
        return run.cells
    name, *others = run.cells
    return [f"[{name}](<{quote(links[run.run_id], safe=SAFE)}>)", *others]
