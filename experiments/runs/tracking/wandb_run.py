"""One W&B run: opened, extended by epochs, completed from the record. The same calls again give the same W&B run."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.metric import METRICS, Metric, is_metric
from experiments.runs import predictions, record
from experiments.runs.tracking.notes import FOLDER, study_key
from experiments.runs.tracking.server import ANSWER_SECONDS
from experiments.runs.tracking.settings import STUDY_KEY, TRIAL
from experiments.study import RunSpec
from experiments.version import code, remote

UPLOAD_SECONDS = 600  # that the server has to take the files of a run
MAX_TAG = 64  # characters, a limit of W&B
INTERRUPTED = 255  # the exit code of a run that was stopped; W&B shows it as failed
NOT_IN_SUMMARY = ("files", "schema", "provenance", "planned", "init")


class WandbRun:
    """A W&B run that is open. Raises whatever wandb raises; after an error it cannot be used any more."""

    def __init__(
        self, run_dir: Path, study: str, planned: RunSpec | None, sweep: str | None, place: dict[str, Any]
    ) -> None:
        """Open a W&B run. `planned`: the run in its study, if it has one. `place`: its mode, project, entity and id."""
        import wandb

        config, folder = record.read_json(run_dir / record.CONFIG), run_dir.parent
        variant = planned.variant if planned else config["model"]["pos_embed"]
        tags = [
            study,
            config["data"]["name"],
            config["model"]["pos_embed"],
            *os.environ.get("WANDB_TAGS", "").split(","),
        ]
        is_trial = (folder / record.TRIALS).exists()
        self.dir, self.study, self.is_online = run_dir, study, place["mode"] == "online"
        self.last_epoch, self.read = 0.0, 0
        self.run = wandb.init(
            **place,
            dir=str(wandb_folder(folder).parent),
            name=f"{variant} s{config['seed']}",
            group=variant,
            job_type=TRIAL if is_trial else "run",
            tags=list(dict.fromkeys(tag.strip()[:MAX_TAG] for tag in tags if tag.strip())),
            config={
                **config,
                "run": run_dir.name,
                "variant": variant,
                "levels": dict(planned.levels) if planned else {},
                STUDY_KEY: study_key(study, folder) if planned or is_trial else "",
            },
            resume="allow",
            reinit="create_new",
            settings=_settings(run_dir, sweep),
        )
        # In every session: a session that defines nothing forgets what the last one defined.
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch", step_sync=False)
        for name in METRICS:
            self.run.define_metric(name, step_metric="epoch", summary="none")  # set below: see `summary_of`

    def follow(self) -> None:
        """Send the epochs that were recorded since the last call."""
        metrics = self.dir / record.METRICS
        if metrics.exists() and (changed := metrics.stat().st_mtime_ns) != self.read:
            self.read = changed
            self._add(record.read_rows(metrics))

    def _add(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Send the epochs that were not sent in this session. W&B drops those that it has."""
        new = [row for row in rows if row["epoch"] > self.last_epoch]
        for row in new:
            self.run.log(dict(row), step=int(row["epoch"]), commit=True)
            self.last_epoch = row["epoch"]
        if new:
            self.run.summary.update(summary_of(rows))

    def complete(self, whole: record.RunRecord) -> None:
        """Send what the record of the ended run holds, and close the run. Returns when the server has everything."""
        self._add(whole.rows)
        cost = whole.summary.get("cost") or {}
        known = {key: cost[key] for key in ("params", "params_fixed", "flops_per_image") if key in cost}
        self.run.config.update({"run_id": whole.summary["run_id"], **known}, allow_val_change=True)
        values = {key: value for key, value in whole.summary.items() if key not in (*NOT_IN_SUMMARY, *whole.rows[-1])}
        self.run.summary.update({**values, **summary_of(whole.rows)})
        if self.is_online:
            self._upload(whole)
            if digest := whole.summary["files"].get(record.PREDICTIONS):
                table = classes_table(predictions.read(whole.dir, digest))
                self.run.log({"test/classes": table}, step=len(whole.rows) + 1)  # an epoch is sent once
        self.close()

    def close(self) -> None:
        """Close the W&B run with the status of its record."""
        status = record.read_summary(self.dir)["status"] if record.is_finished(self.dir) else None
        self.run.finish(exit_code={None: INTERRUPTED, "diverged": 1}.get(status, 0))

    def _upload(self, whole: record.RunRecord) -> None:
        """Send the files of the record as an artifact; the same files again are the same version of it."""
        import wandb

        artifact = wandb.Artifact(f"record-{self.run.id}", type="model", metadata={"run_id": whole.summary["run_id"]})
        for name in (record.SUMMARY, *whole.summary["files"]):
            artifact.add_file(str(whole.dir / name), name=name, policy="immutable", skip_cache=True)  # copied nowhere
        aliases = [whole.summary["status"], f"s{whole.config['seed']}", self.study]
        allowed = [re.sub(r"[^A-Za-z0-9_.-]", "-", alias) for alias in aliases if alias]
        self.run.log_artifact(artifact, aliases=allowed).wait(timeout=UPLOAD_SECONDS)


def wandb_folder(folder: Path) -> Path:
    """The folder of wandb: in that of the user's WANDB_DIR, else in the study's."""
    return Path(os.environ.get("WANDB_DIR") or folder) / FOLDER


def classes_table(kept: predictions.Predictions) -> Any:
    """A W&B table: the number of test images of each class, and their accuracy."""
    import wandb

    hits = {int(label): kept.hits[kept.labels == label] for label in np.unique(kept.labels)}
    names = kept.classes or range(max(hits, default=-1) + 1)
    rows = [[str(names[label]), len(of_class), float(of_class.mean())] for label, of_class in hits.items()]
    return wandb.Table(columns=["class", "images", "accuracy"], data=rows)


def summary_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The last value of every metric, and the best one: {"val/acc": 0.9, "best/val/acc": 0.92}.

    wandb could compute it, but forgets the best value when a run is resumed.
    """
    summary = {}
    for metric in filter(is_metric, rows[-1]):
        values = [row[metric] for row in rows]
        summary[metric] = values[-1]
        if finite := [value for value in values if math.isfinite(value)]:
            summary[f"best/{metric}"] = min(finite) if Metric(metric).lower_is_better else max(finite)
    return summary


def _settings(run_dir: Path, sweep: str | None) -> Any:
    import wandb

    origin = record.read_summary(run_dir).get("provenance", {}) if record.is_finished(run_dir) else code()
    return wandb.Settings(
        silent=True,
        console="off",
        init_timeout=ANSWER_SECONDS,
        finish_timeout=ANSWER_SECONDS,
        finish_timeout_raises=True,
        x_transaction_log_flush_interval=1,
        # The commit of this project's code; wandb would take the repository that the output folder lies in.
        git_commit=origin.get("commit"),
        git_remote_url=remote() if origin.get("commit") else None,
        disable_git=origin.get("commit") is None,
        program="vit-ablation",
        x_save_requirements=False,  # 0.3 s a run; the record states the versions
        x_stats_pid=os.getppid(),  # the command, whose workers are its children
        sweep_id=sweep,  # in the environment, it would make `init` ignore the id, project and entity
    )
