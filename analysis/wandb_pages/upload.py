"""The process that saves the pages on the server. `publish` starts it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.files import read_json, write_json
from experiments.runs.tracking import child, server
from experiments.runs.tracking.settings import FIGURES_OF, TOKEN, token

SECONDS = 20  # that the server has for an answer
PAGES = "pages"  # in the file of the token: address of a project -> kind of page -> URL


@dataclass(frozen=True)
class Task:
    """What to save. `axes`: the settings that vary. `headline`: Markdown. `folder`: of the study; `report`: of its report."""

    study: str
    title: str
    metric: str
    axes: list[str]
    headline: list[str]
    folder: str
    report: str
    project: str | None
    entity: str | None


def save(task: Task) -> dict[str, str]:
    """Create or update the workspace and the report. Returns their URLs, which are kept beside the token."""
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    from analysis.wandb_pages import pages

    server.check_online()
    entity, project, folder = server.probe(task.entity), server.project(task.project), Path(task.folder)
    figures_run = f"figures-{token(folder)}"
    _send_figures(Path(task.report) / "figures", task.study, figures_run, entity, project)
    note = read_json(folder / TOKEN)
    urls = note.setdefault(PAGES, {}).setdefault(f"{server.base_url()}/{entity}/{project}", {})

    page = pages.workspace(task, entity, project)
    if saved := _read(ws.Workspace.from_url, urls.get("workspace")):
        ours = {section.name for section in page.sections}
        saved.sections = [*page.sections, *(section for section in saved.sections if section.name not in ours)]
        saved.name, saved.settings, saved.runset_settings = page.name, page.settings, page.runset_settings
    (saved or page).save()
    urls["workspace"] = (saved or page).url
    write_json(folder / TOKEN, note)

    text = (Path(task.report) / "report.md").read_text()
    new = pages.report(task, text, figures_run, entity, project)
    if old := _read(wr.Report.from_url, urls.get("report")):
        old.title, old.blocks = new.title, new.blocks
    (old or new).save()
    title = re.sub("[^A-Za-z0-9]+", "-", new.title).strip("-")  # a title may hold what a URL may not
    urls["report"] = f"{(old or new).url.partition('/reports/')[0]}/reports/{title}--{(old or new).id}"
    write_json(folder / TOKEN, note)
    return urls


def _send_figures(folder: Path, study: str, run_id: str, entity: str, project: str) -> None:
    """Send the figures as pictures of a W&B run of their own, without metrics or group. The same figures are sent once."""
    import wandb

    from analysis.wandb_pages.pages import FIGURES

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
                program="vit-report",
                console="off",
                disable_git=True,
                init_timeout=SECONDS,
                finish_timeout=SECONDS,
                finish_timeout_raises=True,
                x_disable_stats=True,
                x_save_requirements=False,
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


if __name__ == "__main__":
    child.serve(lambda task, tell: tell(urls=save(Task(**task))))
