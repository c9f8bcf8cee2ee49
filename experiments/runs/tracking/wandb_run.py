"""One W&B run: opened, extended by epochs, completed from the record. The same calls again give the same W&B run."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.files import check_own, check_own_file
from experiments.metric import METRICS, last_and_best
from experiments.runs import record
from experiments.runs.tracking.notes import study_key
from experiments.runs.tracking.server import ANSWER_SECONDS
from experiments.runs.tracking.settings import STUDY_KEY, TRIAL
from experiments.study import RunSpec
from experiments.version import code, remote

BYTES_PER_SECOND = 250_000  # the slowest upload of a checkpoint that is waited for
MAX_TAG = 64  # characters, a limit of W&B
INTERRUPTED = 255  # the exit code of a run that was stopped; W&B shows it as failed
NOT_IN_SUMMARY = ("files", "schema", "provenance", "planned")
LIMITS = {"init_timeout": ANSWER_SECONDS, "finish_timeout": ANSWER_SECONDS, "finish_timeout_raises": True}
QUIET = {"silent": True, "console": "off", "x_save_requirements": False}  # 0.3 s a run; the record states the versions


class WandbRun:
    """A W&B run that is open. Raises whatever wandb raises; after an error it cannot be used any more."""

    def __init__(
        self, run_dir: Path, study: str, planned: RunSpec | None, sweep: str | None, place: dict[str, Any]
    ) -> None:
        """Open a W&B run. `planned`: the run in its study, if it has one. `place`: its mode, project, entity and id."""
        import wandb

        self.dir, self.study, self.is_online = run_dir, study if planned else "", place["mode"] == "online"
        self.last_epoch, self.read = 0.0, 0
        config, is_trial = record.read_config(run_dir), (run_dir.parent / record.TRIALS).exists()
        kind = config["model"]["pos_embed"]
        variant, levels = (planned.variant, dict(planned.levels)) if planned else (kind, {})
        tags = [self.study, config["data"]["name"], kind, *os.environ.get("WANDB_TAGS", "").split(",")]
        key = study_key(self.study, run_dir.parent) if planned or is_trial else ""
        is_ended = record.is_finished(run_dir)
        origin = record.read_summary(run_dir).get("provenance") or {} if is_ended else code()
        # The commit of this project's code; wandb would take the repository that the output folder lies in.
        commit = origin.get("commit")
        git = {"git_commit": commit, "git_remote_url": remote() if commit else None, "disable_git": commit is None}
        # Statistics are those of the command, whose workers are its children. In the environment, the sweep would make
        # `init` ignore the id, project and entity.
        run = {"program": "vit-ablation", "x_stats_pid": os.getppid(), "sweep_id": sweep}
        self.run = wandb.init(
            **place,
            name=f"{variant} s{config['seed']}",
            group=variant,
            job_type=TRIAL if is_trial else "run",
            tags=list(dict.fromkeys(tag.strip()[:MAX_TAG] for tag in tags if tag.strip())),
            config={**config, "run": run_dir.name, "variant": variant, "levels": levels, STUDY_KEY: key},
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(**LIMITS, **QUIET, **git, **run, x_transaction_log_flush_interval=1),
        )
        # In every session: one that defines nothing forgets what the last one defined, and the best values with it.
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch", step_sync=False)
        for name in METRICS:
            self.run.define_metric(name, step_metric="epoch", summary="none")

    def follow(self) -> None:
        """Send the epochs that were recorded since the last call."""
        metrics = check_own(self.dir, record.METRICS)
        if metrics.exists() and (changed := metrics.stat().st_mtime_ns) != self.read:
            check_own_file(self.dir, record.METRICS)
            self.read = changed
            self._add(record.read_rows(metrics))

    def _add(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Send the epochs that were not sent in this session. W&B drops those that it has."""
        for row in [row for row in rows if row["epoch"] > self.last_epoch]:
            self.run.log(dict(row), step=int(row["epoch"]), commit=True)
            self.last_epoch = row["epoch"]
        if rows:
            self.run.summary.update(last_and_best(rows))

    def complete(self, whole: record.RunRecord) -> None:
        """Send what the record of the ended run holds, and close the run. Returns when the server has everything."""
        import wandb

        self._add(whole.rows)
        cost = whole.summary.get("cost") or {}
        known = {key: cost[key] for key in ("params", "params_fixed", "flops_per_image") if key in cost}
        self.run.config.update({"run_id": whole.summary["run_id"], **known}, allow_val_change=True)
        others = {key: value for key, value in whole.summary.items() if key not in (*NOT_IN_SUMMARY, *whole.rows[-1])}
        self.run.summary.update({**others, **last_and_best(whole.rows)})
        if self.is_online:
            self._upload(whole)
            if digest := whole.summary["files"].get(record.PREDICTIONS):
                from experiments.runs import predictions  # imports numpy

                rows = predictions.read(whole.dir, digest).by_class()
                table = wandb.Table(columns=["class", "images", "accuracy"], data=[list(row) for row in rows])
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
        seconds = ANSWER_SECONDS + (whole.dir / record.CHECKPOINT).stat().st_size // BYTES_PER_SECOND
        self.run.log_artifact(artifact, aliases=allowed).wait(timeout=seconds)
