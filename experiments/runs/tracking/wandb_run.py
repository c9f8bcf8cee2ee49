"""One W&B run: opened, extended by epochs, completed from the record. The same calls again give the same W&B run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.metric import METRICS, Metric
from experiments.runs import record
from experiments.runs.tracking import agent, media, server
from experiments.runs.tracking.agent import AgentRun
from experiments.runs.tracking.epoch_log import RunInfo
from experiments.runs.tracking.pictures import Pictures
from experiments.version import remote

INIT_SECONDS = 10.0  # that the server has to answer; wandb's default is 90
FINISH_SECONDS = 10.0  # that it has to take what is left, beside the checkpoint
BYTES_PER_SECOND = 250_000  # the slowest upload of a checkpoint that is waited for
MAX_TAG = 64  # characters, a limit of W&B
INTERRUPTED = 255  # the exit code of a run that was stopped; W&B shows it as failed
NOT_IN_SUMMARY = ("files", "schema", "provenance", "planned", "init")


@dataclass(frozen=True)
class Place:
    """Where W&B runs go. `folder`: of the study. `token`: the random part of their ids. `agent`: see `Tracking`."""

    folder: Path
    token: str
    mode: str
    project: str
    entity: str | None = None
    agent: AgentRun | None = None

    def of_agent(self, run: str) -> AgentRun | None:
        """The W&B run of a sweep that gets this run: the one asked for now, else the last one that was."""
        project = f"{server.base_url()}/{self.project}"
        noted = agent.noted(self.folder, run, project)
        if self.agent and self.agent != noted:
            agent.note(self.folder, run, self.agent, project)
        return self.agent or noted

    def wandb_id(self, run: str, run_id: str) -> str:
        """The id in W&B of a run. `run`: its name."""
        own = self.of_agent(run)
        return own.id if own else f"{run_id}-{self.token}"


def wandb_parent(study_dir: Path) -> Path:
    """The folder in which wandb makes its folder: that of the user's WANDB_DIR, else the study's."""
    return Path(os.environ.get("WANDB_DIR") or study_dir)


class WandbRun:
    """A W&B run that is open. Raises whatever wandb raises; after an error it cannot be used any more."""

    def __init__(self, info: RunInfo, place: Place) -> None:
        import wandb

        self.info, self.place, self.logged = info, place, 0.0
        of_agent = place.of_agent(info.run)
        # A search reads the value of its metric in the summary, which has to be a number.
        self.summary_of = last_values if of_agent and not info.study else summary_of
        self.epochs: list[Mapping[str, float]] = []  # all so far
        self.run = wandb.init(
            mode=place.mode,  # type: ignore[arg-type]
            project=place.project,
            entity=place.entity,
            dir=str(wandb_parent(place.folder)),
            id=place.wandb_id(info.run, info.run_id),
            name=f"{info.variant} s{info.seed}" if info.variant else info.run,
            group=info.variant or None,
            job_type=info.study or None,
            tags=_tags(info),
            notes=os.environ.get("WANDB_NOTES") or _notes(info, place),
            config=_config(info),
            resume="allow",
            reinit="create_new",
            settings=_settings(info, of_agent),
        )
        # In every session: a session that defines nothing forgets what the last one defined.
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch", step_sync=False)
        for name in METRICS:
            self.run.define_metric(name, step_metric="epoch", summary="none")  # `add` sets it: see `summary_of`

    def add(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Send the epochs that were not sent in this session. W&B drops those that it has."""
        new = [row for row in epochs if row["epoch"] > self.logged]
        for row in new:
            self.run.log(dict(row), step=int(row["epoch"]), commit=True)
        if new:
            self.logged, self.epochs = new[-1]["epoch"], list(epochs)
            self.run.summary.update(self.summary_of(epochs))

    def complete(self, run: record.Run, pictures: Pictures | None) -> None:
        """Send what the record of the ended run holds, and close the run. Returns when the server has everything."""
        speed = {row["epoch"]: row for row in self.epochs}
        self.add([{**speed.get(row["epoch"], {}), **row} for row in run.rows])
        shown = media.of_pictures(pictures) if pictures else {}
        names = [str(name) for name in pictures.classes] if pictures else []
        shown |= media.of_predictions(run.dir, run.summary, names)
        if shown:
            self.run.log(shown, step=len(run.rows) + 1, commit=True)  # after the last epoch; an epoch is sent only once
        if self.place.mode == "online":
            self._upload(run)
        self.run.config.update(_cost(run.summary.get("cost") or {}), allow_val_change=True)
        values = {key: value for key, value in run.summary.items() if key not in (*NOT_IN_SUMMARY, *run.rows[-1])}
        self.run.summary.update({**values, **self.summary_of(run.rows)})
        self.run.finish(exit_code=1 if run.summary["status"] == "diverged" else 0)

    def stop(self) -> None:
        """Close a run that has not ended."""
        self.run.finish(exit_code=INTERRUPTED)

    def _upload(self, run: record.Run) -> None:
        """Send the files of the record as an artifact; the same files again are the same version of it."""
        import wandb

        artifact = wandb.Artifact(
            f"record-{self.run.id}",
            type="model",
            description=f"The record of {run.name}: configuration, metrics, predictions, checkpoint.",
            metadata={
                "run_id": self.info.run_id,
                "variant": self.info.variant,
                "test/acc": run.summary.get("test/acc"),
            },
        )
        for name in (record.SUMMARY, *run.summary["files"]):
            artifact.add_file(str(run.dir / name), name=name, policy="immutable", skip_cache=True)  # copied nowhere
        aliases = [run.summary["status"], f"s{self.info.seed}", *([self.info.study] if self.info.study else [])]
        logged = self.run.log_artifact(artifact, aliases=[re.sub(r"[^A-Za-z0-9_.-]", "-", alias) for alias in aliases])
        logged.wait(timeout=math.ceil(finish_seconds(self.info)))


def finish_seconds(info: RunInfo) -> float:
    """The seconds that the server has to take what is left of a run."""
    return FINISH_SECONDS + 4 * info.cost.get("params", 0) / BYTES_PER_SECOND


def summary_of(epochs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The last and the best value of every metric: {"val/acc": {"last": 0.9, "max": 0.92}}.

    wandb could compute it, but forgets the best value when a run is resumed.
    """
    found = {}
    for metric in METRICS:
        values = [row[metric] for row in epochs if metric in row]
        best, name = (min, "min") if Metric(metric).lower_is_better else (max, "max")
        if values:
            finite = [value for value in values if math.isfinite(value)]
            found[str(metric)] = {"last": values[-1], **({name: best(finite)} if finite else {})}
    return found


def last_values(epochs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The last value of every metric."""
    return {name: values["last"] for name, values in summary_of(epochs).items()}


def _settings(info: RunInfo, of_agent: AgentRun | None) -> Any:
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        init_timeout=INIT_SECONDS,
        finish_timeout=finish_seconds(info),
        finish_timeout_raises=True,
        x_transaction_log_flush_interval=1,
        # The commit of this project's code; wandb would take the repository that the output folder lies in.
        git_commit=info.commit,
        git_remote_url=remote() if info.commit else None,
        disable_git=info.commit is None,
        program="vit-sweep" if info.study else "vit-train",
        x_save_requirements=False,  # 0.3 s a run; the record states the versions
        x_stats_pid=info.pid or os.getpid(),
        # Here and not in the environment, where it would make `init` ignore the id, project and entity.
        sweep_id=of_agent.sweep if of_agent else None,
    )


def _tags(info: RunInfo) -> list[str]:
    own = [info.study, info.config["data"]["name"], info.config["model"]["pos_embed"]]
    own += os.environ.get("WANDB_TAGS", "").split(",")
    return list(dict.fromkeys(tag.strip()[:MAX_TAG] for tag in own if tag.strip()))


def _notes(info: RunInfo, place: Place) -> str:
    """Where the run's record is."""
    return f"Run {info.run_id} of vit-ablation. Its record: the folder {info.run} in {place.folder.resolve().name}."


def _config(info: RunInfo) -> dict[str, Any]:
    """The configuration of the run, and beside it what tells the runs of a study apart."""
    own = {"run": info.run, "run_id": info.run_id, "variant": info.variant, "levels": dict(info.levels)}
    return {**info.config, **own, **_cost(info.cost)}


def _cost(cost: Mapping[str, Any]) -> dict[str, Any]:
    return {key: cost[key] for key in ("params", "params_fixed", "flops_per_image") if key in cost}
