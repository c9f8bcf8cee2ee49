"""Save the workspace of a study in W&B. It takes a bounded time."""

import importlib.util

from analysis.findings import Findings
from analysis.runs.runs import Runs
from analysis.write.document import Document
from experiments.errors import UserError
from experiments.runs.tracking import server
from experiments.runs.tracking.settings import Tracking

LIMIT_SECONDS = 120  # for everything that is asked of the server


def check(study: Runs) -> None:
    """Raise `UserError` where the extra is not installed, or where the study has no folder that can keep the URLs."""
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"')
    if study.folder is None or not study.recorded:
        raise UserError(f"--wandb: {study.name} has no study folder; give the folder of a study that vit-sweep trained")


def publish(findings: Findings, document: Document, place: Tracking) -> str:
    """Save the workspace of a study; what to tell the user."""
    folder = findings.study.folder
    assert folder is not None  # see `check`
    try:
        with server.wandb_in_use():
            from analysis.wandb_pages import pages

            url = server.bounded(lambda: pages.save(findings, document, folder, place), LIMIT_SECONDS)
            return f"workspace in W&B: {url}"
    except server.Unreachable as error:
        return f"not saved in W&B ({error})"
