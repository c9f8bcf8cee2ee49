"""Publish a study's report in W&B. It takes a bounded time."""

import importlib.util
from pathlib import Path

from analysis.sources.runs_table import RunsTable
from analysis.write.document import Document
from experiments.errors import UserError
from experiments.runs.tracking import server
from experiments.runs.tracking.settings import Tracking

LIMIT_SECONDS = 120  # for everything that is asked of the server


def check(study: RunsTable) -> None:
    """Raise `UserError` where the extra is not installed, or where the study has no folder that can keep the URLs."""
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"')
    if study.folder is None or not study.recorded:
        raise UserError(f"--wandb: {study.name} has no study folder; give the folder of a study that vit-sweep trained")


def publish(study: RunsTable, document: Document, out: Path, place: Tracking) -> list[str]:
    """Save the pages of a report that was written to `out`; what to tell the user."""
    assert study.folder is not None  # see `check`
    try:
        with server.wandb_in_use():
            from analysis.wandb_pages import pages

            task = pages.Task(study, document, study.folder, out, place)
            urls = server.bounded(lambda: pages.save(task), LIMIT_SECONDS)
            return [f"{kind} in W&B: {url}" for kind, url in urls.items()]
    except server.Unreachable as error:
        return [f"not saved in W&B ({error})"]
