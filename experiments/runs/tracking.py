"""Mirror runs to Weights & Biases. Only this file imports wandb. No error here stops a run or changes its record."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Mode = Literal["auto", "online", "offline", "off"]
MODES: tuple[str, ...] = get_args(Mode)
INIT_SECONDS = 20  # wandb's default of 90 s would be too long for a sweep with many runs


@dataclass(frozen=True)
class Tracking:
    """How runs are mirrored. `auto` is online if an API key is configured, else offline."""

    mode: Mode = "auto"
    study: str = ""
    project: str = "vit-ablation"

    def notice(self, folder: Path) -> str:
        """Where the runs in this folder are mirrored, in one line; empty if they are not."""
        if self.mode == "off":
            return ""
        try:
            mode = _mode(self.mode)
        except Exception as error:  # wandb reads its own settings and credentials here
            return f"tracking: W&B cannot be used ({_brief(error)}); the records are complete without it"
        if mode == "disabled":
            return ""
        where = f"online, to the project {self.project}" if mode == "online" else f"offline, in {folder / 'wandb'}"
        later = "" if mode == "online" else "; upload later with `wandb sync`"
        return f"tracking: runs are mirrored to Weights & Biases {where}{later}; switch off with --tracking off"

    def start(self, config: Mapping[str, Any], run_dir: Path, run_id: str, variant: str) -> RunTracker:
        """Start to mirror a run. Reports an error of wandb once on stderr, raises nothing and asks no question."""
        if self.mode == "off":
            return RunTracker()
        tracker = RunTracker()
        tracker.guard(lambda: tracker.open(self, config, Path(run_dir), run_id, variant))
        return tracker


@dataclass
class RunTracker:
    """One mirrored run. If `run` is None, every call does nothing."""

    run: Any = None

    def open(self, tracking: Tracking, config: Mapping[str, Any], run_dir: Path, run_id: str, variant: str) -> None:
        import wandb

        study_dir = run_dir.parent.resolve()
        # Without this, artifacts are staged in the home folder.
        os.environ.setdefault("WANDB_DATA_DIR", str(study_dir / "wandb"))
        os.environ.setdefault("WANDB_SILENT", "true")
        mode = _mode(tracking.mode)
        if mode == "disabled":
            return
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=INIT_SECONDS,
            finish_timeout=60,
            x_disable_stats=True,
            x_transaction_log_flush_interval=1,
        )
        place = hashlib.sha256(f"{os.uname().nodename}:{run_dir.resolve()}".encode()).hexdigest()[:8]
        options: dict[str, Any] = {
            "mode": mode,
            "project": tracking.project,
            "dir": str(study_dir),
            "config": dict(config),
            "settings": settings,
            "group": variant or None,
            "job_type": tracking.study or None,
            "name": run_dir.name,
            "id": f"{run_id}-{place}",
            "resume": "allow",
            "reinit": "create_new",
        }
        try:
            self.run = wandb.init(**options)
        except (wandb.errors.Error, OSError) as error:
            if mode != "online":
                raise
            print(f"tracking: W&B did not answer ({_brief(error)}); {run_dir.name} is tracked offline", file=sys.stderr)
            os.environ["WANDB_MODE"] = "offline"  # for `auto`: wait only once per process
            options |= {"mode": "offline", "id": f"{options['id']}-offline"}  # wandb's service still uses the other id
            self.run = wandb.init(**options)
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch")
        self.run.define_metric("val/acc", step_metric="epoch", summary="last")

    def log(self, row: Mapping[str, float]) -> None:
        """Mirror the row of an epoch."""
        if self.run is not None:
            self.guard(lambda: self.run.log(dict(row)))

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Mirror the summary, and end the wandb run."""
        if self.run is None:
            return

        def close() -> None:
            flat = {
                key: value for key, value in summary.items() if key not in ("files", "digest", "schema", "provenance")
            }
            self.run.summary.update(flat)
            self.run.finish(exit_code=0 if summary["status"] != "diverged" else 1)

        self.guard(close)

    def guard(self, call: Callable[[], None]) -> None:
        """Call a function. After an error of any kind, report it once and stop mirroring."""
        try:
            call()
        except Exception as error:
            print(f"tracking: stopped for this run: {_brief(error)}; the local record is complete", file=sys.stderr)
            self.run = None


def _mode(mode: Mode) -> str:
    """The mode for wandb. The environment variable WANDB_MODE, if set, decides for `auto`."""
    if mode != "auto":
        return mode
    return os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")


def _has_key() -> bool:
    """Whether an API key is configured. Asks no question and no server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    import wandb
    from wandb.sdk.lib import wbauth

    return bool(wbauth.read_netrc_auth(host=wandb.setup().settings.base_url))


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
