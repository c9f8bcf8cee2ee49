"""Publish a study's report in W&B, or write the specification of its pages to a file. It takes a bounded time."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from analysis.report import write
from analysis.report.document import Document
from analysis.sources.study import Study
from analysis.wandb_pages.collect import collect
from analysis.wandb_pages.upload import Task
from experiments.errors import UserError
from experiments.runs.tracking.mirror import NOT_FOR_SEVERAL_RUNS, kill
from experiments.runs.tracking.settings import PROJECT, Tracking

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
    answer = _upload(task)
    if "urls" in answer:
        return [f"{kind} in W&B: {url}" for kind, url in answer["urls"].items()]
    from analysis.wandb_pages.specification import FILE, specification

    project = place.project or os.environ.get("WANDB_PROJECT") or PROJECT
    write.write({**files, FILE: specification(made, place.entity or "", project)}, out)
    return [f"not saved in W&B ({answer['reason']}); the specification of workspace and report: {out / FILE}"]


def _upload(task: Task) -> dict:
    """Run the process that saves the pages, and end it where it takes too long. Returns its answer."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_SEVERAL_RUNS}
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.Popen(
        [sys.executable, "-m", "analysis.wandb_pages.upload"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(task.to_json(), timeout=LIMIT_SECONDS)
        return json.loads(said) if said else {"reason": f"the process for W&B died (status {child.returncode})"}
    except subprocess.TimeoutExpired:
        return {"reason": f"W&B did not answer for {LIMIT_SECONDS} s"}
    finally:
        kill(child)
