"""The W&B run that holds the figures of a study's report, as pictures. It has no metrics and is in no group."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from analysis.wandb_pages.report import FIGURES
from experiments.runs.tracking.settings import FIGURES_OF

SECONDS = 20.0  # that the server has to open the run, and to take the figures
DIGEST = "figures_digest"


def send_figures(figures: Mapping[str, Path], study: str, run_id: str, entity: str, project: str, folder: Path) -> None:
    """Send the figures (name -> PNG). The same figures again are sent once. `folder`: for files of wandb."""
    import wandb

    digest = hashlib.sha256(b"".join(figures[name].read_bytes() for name in sorted(figures))).hexdigest()
    run = wandb.init(
        mode="online",
        entity=entity,
        project=project,
        id=run_id,
        name=f"figures of {study}",
        job_type="figures",
        config={FIGURES_OF: study},
        resume="allow",
        dir=str(folder),
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
    if run.summary.get(DIGEST) != digest:
        run.log({f"{FIGURES}/{name}": wandb.Image(str(path)) for name, path in figures.items()})
        run.summary[DIGEST] = digest
    run.finish()
