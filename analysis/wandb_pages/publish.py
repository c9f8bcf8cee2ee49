"""Publish a study's report in W&B, or write the specification of its pages to a file. It takes a bounded time."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path

from analysis.report import write
from analysis.report.document import Document
from analysis.sources.study import Study
from analysis.wandb_pages.collect import collect
from analysis.wandb_pages.upload import Task
from experiments.errors import UserError
from experiments.runs.tracking import server
from experiments.runs.tracking.child import ask
from experiments.runs.tracking.settings import Tracking

LIMIT_SECONDS = 120  # for everything that is asked of the server


def check(study: Study) -> None:
    """Raise `UserError` where the extra is not installed, or where the study has no folder that can keep the URLs."""
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"')
    if study.folder is None or not study.recorded:
        raise UserError(f"--wandb: {study.name} has no study folder; give the folder of a study that vit-sweep trained")


def publish(study: Study, document: Document, files: dict[str, bytes], out: Path, place: Tracking) -> list[str]:
    """Save the pages of a report that was written to `out`; what to tell the user.

    Without a server or an account, their specification is added to the report. `files`: the report's, name -> content.
    """
    assert study.folder is not None
    made = collect(study, document)
    task = Task(made.to_json(), str(study.folder), str(out / "figures"), place.project, place.entity)
    try:
        urls = ask("analysis.wandb_pages.upload", asdict(task), LIMIT_SECONDS)["urls"]
        return [f"{kind} in W&B: {url}" for kind, url in urls.items()]
    except server.Unreachable as error:
        from analysis.wandb_pages.specification import FILE, specification

        write.write({**files, FILE: specification(made, place.entity or "", server.project(place.project))}, out)
        return [f"not saved in W&B ({error}); the specification of workspace and report: {out / FILE}"]
