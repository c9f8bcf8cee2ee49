"""The process that saves the pages on the server. `publish` starts it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.wandb_pages import urls
from analysis.wandb_pages.content import Content
from experiments.runs.tracking import child, sent, server, settings

ANSWER_SECONDS = 20
MOST_A_PAGE = 1000  # runs that one request asks for


@dataclass(frozen=True)
class Task:
    """What to save. `folder`: of the study; `figures`: of the PNGs, named after the figures."""

    content: str
    folder: str
    figures: str
    project: str | None
    entity: str | None


def save(task: Task) -> dict[str, str]:
    """Create or update the workspace and the report. Returns their URLs, which it keeps in the study's folder."""
    content, folder = Content.from_json(task.content), Path(task.folder)
    if reason := server.why_not_online():
        raise server.Unreachable(reason)
    entity, project = server.probe(task.entity), server.project(task.project)
    token = settings.token(folder)
    where = f"{server.base_url()}/{entity}/{project}"
    links = _links(content, folder, entity, project, where)
    if not links:
        raise server.Unreachable(
            f"{entity}/{project} has no run of this study; send them with `vit-sweep sync {folder}`"
        )
    known = urls.known(folder, where)
    figures_run = f"figures-{token}"
    _send_figures(content, Path(task.figures), figures_run, entity, project)
    saved = {"workspace": _save_workspace(content, entity, project, known.get("workspace"))}
    urls.keep(folder, where, saved)
    saved["report"] = _save_report(content, entity, project, known.get("report"), figures_run, links)
    urls.keep(folder, where, saved)
    return saved


def _links(content: Content, folder: Path, entity: str, project: str, where: str) -> dict[str, str]:
    """run id -> URL of the W&B run, for the runs that the server has."""
    import wandb

    api = wandb.Api(timeout=ANSWER_SECONDS)
    try:
        found = api.runs(f"{entity}/{project}", filters={"jobType": content.study}, per_page=MOST_A_PAGE)
        ids = {run.id: run.url for run in found}
    except ValueError:  # there is no such project yet
        return {}
    own = ((run.run_id, sent.read(folder, run.name, where).id) for run in content.runs)
    return {run_id: ids[wandb_id] for run_id, wandb_id in own if wandb_id in ids}


def _send_figures(content: Content, folder: Path, run_id: str, entity: str, project: str) -> None:
    from analysis.wandb_pages.figures_run import send_figures

    names = [block.text for block in content.blocks if block.kind == "figure"]
    if names:
        with tempfile.TemporaryDirectory() as temporary:
            figures = {name: folder / f"{name}.png" for name in names}
            send_figures(figures, content.study, run_id, entity, project, Path(temporary))


def _save_workspace(content: Content, entity: str, project: str, url: str | None) -> str:
    import wandb_workspaces.workspaces as ws

    from analysis.wandb_pages.workspace import update, workspace

    page = workspace(content, entity, project)
    saved = _found(ws.Workspace.from_url, url)
    if saved is not None:
        update(saved, page)
        page = saved
    page.save()
    return page.url


def _save_report(
    content: Content, entity: str, project: str, url: str | None, figures_run: str, links: dict[str, str]
) -> str:
    import wandb_workspaces.reports.v2 as wr

    from analysis.wandb_pages.report import report

    page = report(content, entity, project, figures_run, links)
    saved = _found(wr.Report.from_url, url)
    if saved is not None:
        for name in ("title", "description", "width", "blocks"):
            setattr(saved, name, getattr(page, name))
        page = saved
    page.save()
    title = re.sub("[^A-Za-z0-9]+", "-", page.title).strip("-")  # a title may hold what a URL may not
    start, _, _ = page.url.partition("/reports/")
    return f"{start}/reports/{title}--{page.id}"


def _found(read: Callable[[str], Any], url: str | None) -> Any:
    """A page that was saved before; None where there is none, or where it was deleted."""
    try:
        return read(url) if url else None
    except (ValueError, TypeError, LookupError):  # wandb-workspaces on an answer that holds no page
        return None


if __name__ == "__main__":
    child.serve(lambda task, tell: tell(urls=save(Task(**task))))
