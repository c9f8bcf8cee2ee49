"""The saved workspace of a study: plots of its runs, live during a sweep."""

from __future__ import annotations

import unicodedata

import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2.interface import PanelTypes

from analysis.wandb_pages import panels
from analysis.wandb_pages.content import Content
from experiments.metric import WATCHED
from experiments.runs.tracking.pictures import ATTENTION, SIMILARITY


def workspace(content: Content, entity: str, project: str) -> ws.Workspace:
    """Make the workspace of a study. It is not saved, and no server is asked."""
    made = ws.Workspace(
        entity=entity,
        project=project,
        name=_name(content.study),
        auto_generate_panels=False,
        sections=_sections(content),
        settings=ws.WorkspaceSettings(x_axis="epoch", max_runs=panels.MOST_SHOWN, smoothing_type="none"),
        runset_settings=_runset(content),
    )
    made._internal_runset_id = panels.fixed_id(content.study)
    return made


def update(saved: ws.Workspace, new: ws.Workspace) -> None:
    """Replace what `workspace` makes in a saved workspace. Sections with other names stay, after ours."""
    own = {section.name for section in new.sections}
    saved.name = new.name
    saved.sections = [*new.sections, *(section for section in saved.sections if section.name not in own)]
    saved.settings, saved.runset_settings = new.settings, new.runset_settings


def _sections(content: Content) -> list[ws.Section]:
    result: list[PanelTypes] = [
        wr.MarkdownPanel(markdown="\n\n".join([*content.headline, panels.NOTE])),
        panels.final_metric(content),
        panels.parallel_coordinates(content),
        *panels.against_cost(content),
        wr.RunComparer(diff_only="split"),
    ]
    training: list[PanelTypes] = [
        *(panels.curve(metric, f"{metric.label}: {panels.BAND}", metric.label) for metric in WATCHED)
    ]
    pictures: list[PanelTypes] = [
        wr.MediaBrowser(title="Attention on validation images, with truth and prediction", media_keys=[ATTENTION]),
        wr.MediaBrowser(title="Similarity of position embeddings", media_keys=[SIMILARITY]),
    ]
    named: dict[str, list[PanelTypes]]
    named = {"Result": result, "Learning curves": [*panels.curves()], "Training": training, "Pictures": pictures}
    for name, shown in named.items():
        panels.with_fixed_ids(shown, f"{content.study}/{name}")
    return [ws.Section(name=name, panels=shown, is_open=True) for name, shown in named.items()]


def _runset(content: Content) -> ws.RunsetSettings:
    """The runs of this study: the job type of a W&B run is its study."""
    by_metric = expr.Ordering(expr.Summary(content.summary_key), ascending=False)
    return ws.RunsetSettings(
        filters=expr.And(expr.Metric("JobType") == content.study),
        groupby=[expr.Metric("Group")],
        order=[by_metric],
        group_colors={variant: colour for variant, colour in content.colours.items()},
        pinned_columns=[f"summary:{content.summary_key}", "config:params.value", "config:flops_per_image.value"],
    )


def _name(study: str) -> str:
    """wandb-workspaces allows no symbols in the name."""
    return "".join("-" if unicodedata.category(c).startswith("S") else c for c in study)
