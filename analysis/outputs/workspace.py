"""The workspace of a study in W&B: its differences, and plots of its runs, grouped by variant, which is W&B's group."""

import re
from pathlib import Path
from typing import Any

import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2.interface import PanelTypes

from analysis.findings import Findings
from analysis.runs.runs import Runs
from analysis.write import markdown
from analysis.write.document import Document
from experiments.files import read_json, write_json
from experiments.metric import METRICS, WATCHED, Metric
from experiments.tracking import STUDY_KEY, TOKEN, Tracking, place, read_note, study_key, token

FEWEST_FOR_BAND = 5  # seeds; with fewer, plots show each run
NOTE = (
    "The statistics on this page come from the tables of vit-report, which use every run. The plots of W&B are for "
    "watching: W&B draws a group from a sample of at most 100 runs, and its bands are standard errors, or single runs "
    f"below {FEWEST_FOR_BAND} seeds, not confidence intervals."
)
MOST_SHOWN = 1000  # runs and bars of a plot, the limit of W&B; its default is 10
MOST_PINNED = 20  # runs, a limit of W&B
PAGES = "pages"  # in the file of the token: address of a project -> kind of page -> URL


def workspace(findings: Findings, document: Document, folder: Path, where: tuple[str, str, str]) -> ws.Workspace:
    """Make the workspace of a study, whose folder is `folder`. It is not saved, and no server is asked.

    `where`: see `place`.
    """
    entity, project, address = where
    study, metric, styles = findings.study, str(findings.study.metric), findings.styles.by_variant
    tables = [markdown.table(table) for table in document.tables if table.name == "variants"]
    sections: dict[str, list[PanelTypes]] = {
        "Result": [
            wr.MarkdownPanel(markdown="\n\n".join([*map(markdown.escaped, document.headline), NOTE])),
            *(wr.MarkdownPanel(markdown=str(table)) for table in tables),
            *_result(study),
        ],
        "Learning curves": [_curve(study, name) for name in METRICS if not name.startswith("test/")],
        "Training": [_curve(study, name) for name in WATCHED],
    }
    return ws.Workspace(
        entity=entity,
        project=project,
        name=re.sub(r"[^\w\s.,:;()-]", "-", study.name),  # W&B allows no symbols
        auto_generate_panels=False,
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in sections.items()],
        settings=ws.WorkspaceSettings(x_axis="epoch", max_runs=MOST_SHOWN, smoothing_type="none"),
        runset_settings=ws.RunsetSettings(
            # other studies in the project may have the name of this one and the names of its variants
            filters=expr.And(expr.Config(STUDY_KEY) == study_key(study.name, folder)),
            groupby=[expr.Metric("Group")],
            group_colors={variant: style.colour for variant, style in styles.items()},
            pinned_runs=[*_baseline_ids(study, folder, address)],
            order=[expr.Ordering(expr.Summary(metric), ascending=False)],
            pinned_columns=[f"summary:{metric}", "config:params.value", "config:flops_per_image.value"],
        ),
    )


def _baseline_ids(study: Runs, folder: Path, project: str) -> list[str]:
    """The ids of the baseline's runs in the project with this address, as many as W&B can pin."""
    runs = study.runs["run"][study.runs["variant"] == study.baseline]
    notes = [read_note(folder, run) for run in runs]
    return [note["id"] for note in notes if note.get("where") == project][:MOST_PINNED]


def _result(study: Runs) -> list[PanelTypes]:
    """The study's metric at the end of training: by variant and by factor."""
    metric = study.metric
    columns = [wr.ParallelCoordinatesPlotColumn(wr.Config(path)) for path in (*study.varied, "seed")]
    return [
        wr.BarPlot(
            title=f"{metric.label} at the end: {_band(study)}",
            metrics=[str(metric)],
            orientation="h",
            title_x=metric.label,
            **_grouped(study),
            max_bars_to_show=MOST_SHOWN,
        ),
        wr.ParallelCoordinatesPlot(
            title=f"{metric.label} by factor, a line for each run",
            columns=[*columns, wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(metric), display_name=metric.label)],
        ),
        wr.RunComparer(diff_only="split"),
    ]


def _band(study: Runs) -> str:
    """What plots show of a variant, in words."""
    return f"mean of each variant, {'± 1 standard error' if _has_band(study) else 'and its runs'}"


def _has_band(study: Runs) -> bool:
    return study.runs["variant"].value_counts().min() >= FEWEST_FOR_BAND


def _grouped(study: Runs) -> dict[str, Any]:
    """The fields of a plot that shows each variant."""
    band = "stderr" if _has_band(study) else "samples"
    group = {"groupby": wr.Metric("Group"), "groupby_aggfunc": "mean", "groupby_rangefunc": band}
    return {**group, "max_runs_to_show": MOST_SHOWN}


def _curve(study: Runs, metric: Metric) -> wr.LinePlot:
    """A metric over the epochs, a line for each variant."""
    axes: dict[str, Any] = {"x": "epoch", "y": [str(metric)], "title_x": "epoch", "title_y": metric.label}
    return wr.LinePlot(title=f"{metric.label}: {_band(study)}", **axes, smoothing_type="none", **_grouped(study))


def save(findings: Findings, document: Document, folder: Path, tracking: Tracking) -> str:
    """Create or update the workspace. Returns its URL, which is kept beside the token of the folder."""
    where = place(tracking)
    token(folder)
    note = read_json(folder / TOKEN)
    urls = note.setdefault(PAGES, {}).setdefault(where[2], {})
    page = new = workspace(findings, document, folder, where)
    if saved := _saved(urls.get("workspace")):
        ours = {section.name for section in new.sections}
        page, of_user = saved, [section for section in saved.sections if section.name not in ours]
        page.sections = [*new.sections, *of_user]
        page.name, page.settings, page.runset_settings = new.name, new.settings, new.runset_settings
    page.save()
    urls["workspace"] = page.url
    write_json(folder / TOKEN, note)
    return str(page.url)


def _saved(url: str | None) -> ws.Workspace | None:
    """The workspace that was saved before; None where there is none, or where it was deleted."""
    try:
        return ws.Workspace.from_url(url) if url else None
    except (ValueError, TypeError, LookupError):  # wandb-workspaces on an answer that holds no page
        return None
