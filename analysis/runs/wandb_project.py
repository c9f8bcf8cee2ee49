"""Read the runs of a Weights & Biases project through its API, as a table: config and summary, a row for each run."""

from typing import Any

import pandas as pd

from analysis.runs.runs import leaves
from experiments.errors import UserError, first_few
from experiments.tracking import check_settings

WANDB = "wandb:"  # before a project, as a source
STATE = "State"  # the column of the state of a run, as W&B exports it
TIMEOUT = 20  # seconds to wait for the server
OURS = {"run", "variant", "data", "model", "optim", "train", "seed"}  # in the configuration of a run of ours
UNENDED = ("running", "pending")


def read_project(source: str) -> pd.DataFrame:
    """The runs of wandb:ENTITY/PROJECT. A name in both config and summary gets the prefix `config.` or `summary.`.

    Raises `UserError` where the server gives no runs.
    """
    check_settings()
    import wandb

    path = source.removeprefix(WANDB)
    if path.count("/") != 1 or not all(path.split("/")):
        raise UserError(f"{source}: is not wandb:ENTITY/PROJECT")
    try:
        rows = [_row(run) for run in wandb.Api(timeout=TIMEOUT).runs(path, order="+created_at")]
    except (wandb.errors.Error, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{source}: the runs could not be read from W&B: {reason}") from error
    return pd.DataFrame(rows, dtype=object)


def _row(run: Any) -> dict[str, Any]:
    config, summary = (
        dict(leaves({name: _value(value) for name, value in of.items() if not name.startswith("_")}))
        for of in (run.config, run.summary)
    )
    both = config.keys() & summary.keys()
    named = {f"config.{name}" if name in both else name: value for name, value in config.items()}
    named |= {f"summary.{name}" if name in both else name: value for name, value in summary.items()}
    return {"Name": run.name, STATE: run.state, "Group": run.group, **named}


def _value(value: Any) -> Any:
    """Plain data: {"last": v, "max": w} becomes v; the API's own mapping, which is no dict, a dict."""
    if not hasattr(value, "items"):
        return value
    parts = {name: _value(part) for name, part in value.items()}
    return parts["last"] if "last" in parts and parts.keys() <= {"last", "max", "min", "mean", "best"} else parts


def without_unended(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The runs that have ended, and a line that names the others and says where runs of ours have their own verdict."""
    left = frame[STATE].isin(UNENDED)
    notes = [f"Left out, not ended: {first_few(frame.loc[left, 'Name'])}."] * bool(left.any())
    if {name.partition(".")[0] for name in frame} >= OURS:
        notes.append("vit-sweep has sent these runs: `vit-report FOLDER` has the study's own verdict.")
    return frame[~left], notes
