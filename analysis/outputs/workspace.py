"""The workspace of a study in W&B: one saved view with the differences and the runs by variant."""

import re
from pathlib import Path

import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from analysis.findings import Findings
from analysis.write import markdown
from analysis.write.document import Document
from experiments.files import read_json, write_json
from experiments.tracking import STUDY_KEY, TOKEN, Tracking, place, study_key, token

MOST_SHOWN = 1000  # bars of a plot, the limit of W&B; its default is 10
PAGE = "workspace"  # in the file of the token: its URL


def workspace(findings: Findings, document: Document, folder: Path, entity: str, project: str) -> ws.Workspace:
    """Make the workspace of a study, whose folder is `folder`. It is not saved, and no server is asked."""
    metric, styles = findings.study.metric, findings.styles.by_variant
    tables = [str(markdown.table(table)) for table in document.tables if table.name == "variants"]
    bars = wr.BarPlot(
        title=f"{metric.label} at the end: mean of each variant, and its runs",
        metrics=[str(metric)],
        orientation="h",
        max_bars_to_show=MOST_SHOWN,
        max_runs_to_show=MOST_SHOWN,
        groupby=wr.Metric("Group"),
        groupby_aggfunc="mean",
        groupby_rangefunc="samples",
    )
    said = "\n\n".join([*map(markdown.escaped, document.headline), *tables])
    return ws.Workspace(
        entity=entity,
        project=project,
        name=re.sub(r"[^\w\s.,:;()-]", "-", findings.study.name),  # W&B allows no symbols
        sections=[ws.Section(name="Result", panels=[wr.MarkdownPanel(markdown=said), bars], is_open=True)],
        settings=ws.WorkspaceSettings(x_axis="epoch", max_runs=MOST_SHOWN),
        runset_settings=ws.RunsetSettings(
            # other studies in the project may have the name of this one and the names of its variants
            filters=expr.And(expr.Config(STUDY_KEY) == study_key(findings.study.name, folder)),
            groupby=[expr.Metric("Group")],
            group_colors={variant: style.colour for variant, style in styles.items()},
        ),
    )


def save(findings: Findings, document: Document) -> str:
    """Create or update the workspace. Returns its URL, which is kept beside the token of the folder."""
    folder, (entity, project, _) = findings.study.folder, place(Tracking())
    assert folder is not None  # see `commands`
    token(folder)
    page, note = workspace(findings, document, folder, entity, project), read_json(folder / TOKEN)
    if url := note.get(PAGE):
        saved, ours = ws.Workspace.from_url(url), {section.name for section in page.sections}
        of_user = [section for section in saved.sections if section.name not in ours]
        saved.name, saved.sections = page.name, [*page.sections, *of_user]
        saved.runset_settings = page.runset_settings
        page = saved
    page.save()
    write_json(folder / TOKEN, {**note, PAGE: page.url})
    return str(page.url)
