"""Save the workspace and the report of a study in W&B.

Runs are grouped by variant, which is W&B's group.
"""

import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wandb
import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2.interface import BlockTypes, PanelTypes

from analysis.figures.labels import study_styles
from analysis.formatting import plain
from analysis.results.means import study_means
from analysis.results.variants import study_variants
from analysis.sources.runs_table import RunsTable
from analysis.write import markdown
from analysis.write.document import Document
from experiments.files import read_json, write_json
from experiments.metric import METRICS, WATCHED, Metric
from experiments.runs.record import TRIALS
from experiments.runs.tracking import server
from experiments.runs.tracking.notes import TOKEN, note_path, study_key, token
from experiments.runs.tracking.settings import FIGURES_OF, STUDY_KEY, Tracking

FEWEST_FOR_BAND = 5  # seeds; with fewer, plots show each run
NOTE = (
    "The statistics on this page come from the tables of vit-report, which use every run. The plots of W&B are for "
    "watching: W&B draws a group from a sample of at most 100 runs, and its bands are standard errors, or single runs "
    f"below {FEWEST_FOR_BAND} seeds, not confidence intervals."
)
MOST_SHOWN = 1000  # runs and bars of a plot, the limit of W&B; its default is 10
MOST_PINNED = 20  # runs, a limit of W&B
MOST_TITLE = 128  # characters, a limit of W&B
FIGURES = "report"  # the figures are logged as report/NAME
FIGURE = re.compile(r"^!\[.*\]\(figures/([\w-]+)\.svg\)$", re.MULTILINE)  # in report.md
FULL_WIDTH, HEIGHT = 24, 12  # of a panel, in W&B's grid
SECONDS = 20  # that the server has for an answer
PAGES = "pages"  # in the file of the token: address of a project -> kind of page -> URL


@dataclass(frozen=True)
class Task:
    """What to save, and where. `folder`: of the study; `out`: of its report."""

    study: RunsTable
    document: Document
    folder: Path
    out: Path
    place: Tracking


def workspace(task: Task, entity: str, project: str) -> ws.Workspace:
    """Make the workspace of a study. It is not saved, and no server is asked."""
    study, metric = task.study, str(task.study.metric)
    styles = study_styles(study_variants(study), study_means(study)).by_variant
    tables = [markdown.table(table) for table in task.document.tables if table.name == "differences"]
    sections: dict[str, list[PanelTypes]] = {
        "Result": [
            wr.MarkdownPanel(markdown="\n\n".join([*map(markdown.escaped, task.document.headline), NOTE])),
            *(wr.MarkdownPanel(markdown=str(table)) for table in tables),
            *_result(task),
        ],
        "Learning curves": [_curve(task, name) for name in METRICS if not name.startswith("test/")],
        "Training": [_curve(task, name) for name in WATCHED],
    }
    return ws.Workspace(
        entity=entity,
        project=project,
        name=re.sub(r"[^\w\s.,:;()-]", "-", study.name),  # W&B allows no symbols
        auto_generate_panels=False,
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in sections.items()],
        settings=ws.WorkspaceSettings(x_axis="epoch", max_runs=MOST_SHOWN, smoothing_type="none"),
        runset_settings=ws.RunsetSettings(
            filters=_of_study(task),
            groupby=[expr.Metric("Group")],
            group_colors={variant: style.colour for variant, style in styles.items()},
            pinned_runs=[*_baseline_ids(task, entity, project)],
            order=[expr.Ordering(expr.Summary(metric), ascending=False)],
            pinned_columns=[f"summary:{metric}", "config:params.value", "config:flops_per_image.value"],
        ),
    )


def report(task: Task, text: str, figures_run: str, entity: str, project: str) -> wr.Report:
    """Make the report of a study. It is not saved.

    `text`: report.md, in which names are never markup. `figures_run`: the id of the W&B run that holds the figures.
    """
    runs = wr.Runset(entity, project, name=task.study.name, filters=_of_study(task), groupby=["Group"])
    figures = wr.Runset(entity, project, name="figures", filters=expr.And(expr.Metric("ID") == figures_run))
    blocks: list[BlockTypes] = []
    for place, part in enumerate(FIGURE.split(text)):  # text, name of a figure, text, ...
        if place % 2 == 0:
            blocks.append(wr.MarkdownBlock(part.strip()))
        else:
            layout = wr.Layout(w=FULL_WIDTH, h=HEIGHT)
            panel = wr.MediaBrowser(media_keys=[f"{FIGURES}/{part}"], num_columns=1, layout=layout)
            blocks.append(wr.PanelGrid(runsets=[figures], panels=[panel], hide_run_sets=True))
    return wr.Report(
        entity=entity,
        project=project,
        title=plain(task.document.title)[:MOST_TITLE],
        description="Made by vit-report. The next vit-report --wandb replaces all of it.",
        width="fluid",
        blocks=[
            *blocks,
            wr.H2("Runs in W&B"),
            wr.CalloutBlock(NOTE),
            wr.PanelGrid(runsets=[runs], panels=_result(task)),
            *_tuning(task, entity, project),
        ],
    )


def _tuning(task: Task, entity: str, project: str) -> list[BlockTypes]:
    """The importance of the tuned settings over the trials in the study's folder, if they were mirrored."""
    blocks: list[BlockTypes] = []
    for folder in [path.parent for path in sorted(task.folder.glob(f"*/{TRIALS}"))]:
        if (folder / TOKEN).exists():
            trials = expr.And(expr.Config(STUDY_KEY) == study_key("", folder))
            runs = wr.Runset(entity, project, name="trials", filters=trials)
            blocks += [
                wr.H2("Importance of the tuned settings"),
                wr.PanelGrid(runsets=[runs], panels=[wr.ParameterImportancePlot(with_respect_to="val/acc")]),
            ]
    return blocks


def _baseline_ids(task: Task, entity: str, project: str) -> list[str]:
    """The ids of the baseline's runs in this project, as many as W&B can pin."""
    where = f"{server.base_url()}/{entity}/{project}"
    runs = task.study.runs["run"][task.study.runs["variant"] == task.study.baseline]
    notes = [read_json(path) for run in runs if (path := note_path(task.folder, run)).exists()]
    return [note["id"] for note in notes if note["where"] == where][:MOST_PINNED]


def _of_study(task: Task) -> Any:
    """The runs of this folder's study: other studies in the project may have its name and the names of its variants."""
    return expr.And(expr.Config(STUDY_KEY) == study_key(task.study.name, task.folder))


def _result(task: Task) -> list[PanelTypes]:
    """The study's metric at the end of training: by variant and by factor."""
    metric = task.study.metric
    columns = [wr.ParallelCoordinatesPlotColumn(wr.Config(path)) for path in (*task.study.varied, "seed")]
    return [
        wr.BarPlot(
            title=f"{metric.label} at the end: {_band(task)}",
            metrics=[str(metric)],
            orientation="h",
            title_x=metric.label,
            **_grouped(task),
            max_bars_to_show=MOST_SHOWN,
        ),
        wr.ParallelCoordinatesPlot(
            title=f"{metric.label} by factor, a line for each run",
            columns=[*columns, wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(metric), display_name=metric.label)],
        ),
        wr.RunComparer(diff_only="split"),
    ]


def _band(task: Task) -> str:
    """What plots show of a variant, in words."""
    return f"mean of each variant, {'± 1 standard error' if _has_band(task) else 'and its runs'}"


def _has_band(task: Task) -> bool:
    return task.study.runs["variant"].value_counts().min() >= FEWEST_FOR_BAND


def _grouped(task: Task) -> dict[str, Any]:
    """The fields of a plot that shows each variant."""
    return {
        "groupby": wr.Metric("Group"),
        "groupby_aggfunc": "mean",
        "groupby_rangefunc": "stderr" if _has_band(task) else "samples",
        "max_runs_to_show": MOST_SHOWN,
    }


def _curve(task: Task, metric: Metric) -> wr.LinePlot:
    """A metric over the epochs, a line for each variant."""
    return wr.LinePlot(
        title=f"{metric.label}: {_band(task)}",
        x="epoch",
        y=[str(metric)],
        title_x="epoch",
        title_y=metric.label,
        smoothing_type="none",
        **_grouped(task),
    )


def save(task: Task) -> dict[str, str]:
    """Create or update the workspace and the report. Returns their URLs, which are kept beside the token."""
    server.check_online()
    entity, project, folder = server.probe(task.place.entity), server.project(task.place.project), task.folder
    figures_run = f"figures-{token(folder)}"
    _send_figures(task.out / "figures", task.study.name, figures_run, entity, project)
    note = read_json(folder / TOKEN)
    urls = note.setdefault(PAGES, {}).setdefault(f"{server.base_url()}/{entity}/{project}", {})

    def keep(kind: str, url: str) -> None:
        urls[kind] = url
        write_json(folder / TOKEN, note)

    page = new = workspace(task, entity, project)
    if saved := _read(ws.Workspace.from_url, urls.get("workspace")):
        ours = {section.name for section in new.sections}
        page, of_user = saved, [section for section in saved.sections if section.name not in ours]
        page.sections = [*new.sections, *of_user]
        page.name, page.settings, page.runset_settings = new.name, new.settings, new.runset_settings
    page.save()
    keep("workspace", page.url)

    text = (task.out / "report.md").read_text()
    made = report(task, text, figures_run, entity, project)
    kept = _read(wr.Report.from_url, urls.get("report")) or made
    kept.title, kept.blocks, kept.width = made.title, made.blocks, made.width
    kept.save()
    title = re.sub("[^A-Za-z0-9]+", "-", made.title).strip("-")  # a title may hold what a URL may not
    keep("report", f"{kept.url.partition('/reports/')[0]}/reports/{title}--{kept.id}")
    return urls


def _send_figures(folder: Path, study: str, run_id: str, entity: str, project: str) -> None:
    """Send the figures as pictures of a W&B run of their own, without metrics or group.

    The same figures are sent once.
    """
    figures = sorted(folder.glob("*.png"))
    digest = hashlib.sha256(b"".join(figure.read_bytes() for figure in figures)).hexdigest()
    with tempfile.TemporaryDirectory() as temporary:
        run = wandb.init(
            mode="online",
            entity=entity,
            project=project,
            id=run_id,
            name=f"figures of {study}",
            job_type="figures",
            config={FIGURES_OF: study},
            resume="allow",
            dir=temporary,
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                init_timeout=SECONDS,
                finish_timeout=SECONDS,
                finish_timeout_raises=True,
                x_disable_stats=True,
            ),
        )
        if run.summary.get("digest") != digest:
            run.log({f"{FIGURES}/{figure.stem}": wandb.Image(str(figure)) for figure in figures})
            run.summary["digest"] = digest
        run.finish()


def _read(read: Callable[[str], Any], url: str | None) -> Any:
    """A page that was saved before; None where there is none, or where it was deleted."""
    try:
        return read(url) if url else None
    except (ValueError, TypeError, LookupError):  # wandb-workspaces on an answer that holds no page
        return None
