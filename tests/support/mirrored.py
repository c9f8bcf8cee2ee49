"""Train tiny runs that are mirrored to the stand-in server, and compare what it got with the records."""

import contextlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import commands
import study_file
import tiny
from wandb_server import Run, WandbServer

from experiments.compared import RunSpec
from experiments.runs import record
from experiments.runs.run import train
from experiments.tracker import Tracker
from experiments.tracking import Tracking


def spec(seed: int = 0, **changes: Any) -> RunSpec:
    """A tiny run of the variant learned-1d."""
    return RunSpec.of(f"s{seed}", tiny.config(seed=seed, **changes), "learned-1d", {"model.pos_embed": "learned-1d"})


def trained(
    study: Path, runs: Sequence[RunSpec], mode: str = "online", on_row: Any = None, ended: list[float] | None = None
) -> list[str]:
    """Train runs as one cohort, as a command does; the lines that the user sees. `ended` gets the seconds of the end,
    and those for which the tracker held an epoch up.
    """
    said: list[str] = []
    if not (study / "study.json").exists():
        write_plan(study, runs)
    held = [0.0]

    def after_epoch(number: int, row: dict[str, float]) -> bool | None:
        start = time.monotonic()
        tracker.epoch(runs[number], row)
        held.append(time.monotonic() - start)
        return on_row(number, row) if on_row else None

    with Tracker(Tracking(mode), study, show=said.append) as tracker:
        train(runs, study, device="cpu", on_row=after_epoch)
        for run in runs:
            tracker.ended(run)
        trained = time.monotonic()
    if ended is not None:
        ended.extend([time.monotonic() - trained, max(held)])
    if tracker.thread.ident:
        tracker.thread.join(30)  # a command would end it; here it would go on in the next test
    return said


def sync(study: Path, *flags: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `vit-sweep sync`."""
    return commands.run("vit-sweep", "sync", study, *flags)


def synced(study: Path, *flags: str) -> str:
    """What `vit-sweep sync` says of the number of runs, where it succeeds."""
    status, out, err = sync(study, *flags)
    assert (status, err) == (0, "")
    return out.splitlines()[-1]


def users(server: WandbServer) -> list[int]:
    """The processes, other than this one, that were started with the address of a server and have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if server.url.encode() in (path / "environ").read_bytes():  # that of a zombie is empty
                found.append(int(path.name))
    return found


def mirror_of(server: WandbServer, run_dir: Path) -> Run:
    """The only W&B run of this record."""
    (found,) = (run for run in server.runs.values() if run.settings["run"] == run_dir.name)
    return found


def check(server: WandbServer, run_dir: Path, wandb_id: str | None = None) -> Run:
    """Assert that W&B has a run exactly as its record has it, as the W&B run with this id. Returns it."""
    own = record.read_run(run_dir, checkpoint=True, predictions=True)
    found = server.runs[wandb_id] if wandb_id else mirror_of(server, run_dir)
    sent = [{key: float(row[key]) for key in own.rows[0]} for row in found.rows]  # W&B writes "NaN"
    assert repr(sent) == repr(own.rows)
    assert found.state == ("failed" if own.summary["status"] == "diverged" else "finished")
    assert {key: found.settings[key] for key in own.config} == own.config
    for key in ("status", "epochs", "test/acc", "test/loss", "digest"):
        assert found.summary.get(key) == own.summary[key]
    assert found.summary["cost"] == own.summary["cost"]
    for name, best in (("val/acc", max), ("train/acc", max), ("val/loss", min), ("train/loss", min)):
        values = [row[name] for row in own.rows if math.isfinite(row[name])]
        if len(values) == len(own.rows):
            assert (found.summary[name], found.summary[f"best/{name}"]) == (values[-1], best(values))
    (artifact,) = (a for a in server.artifacts.values() if a.name == f"record-{found.name}")
    assert artifact.committed
    files = {name: body for name, body in artifact.files.items() if name != ".manifest"}
    assert files == {name: (run_dir / name).read_bytes() for name in (*own.summary["files"], record.SUMMARY)}
    return found


def write_plan(study: Path, runs: Sequence[RunSpec]) -> None:
    """A study.json with these runs."""
    entries = [run.model_dump(by_alias=True) for run in runs]
    fields = {
        "name": study.name[:80],
        "factors": {"model.pos_embed": ["learned-1d"]},
        "base": runs[0].config.model_dump(),
    }
    study.mkdir(parents=True, exist_ok=True)
    study_file.plan({"learned-1d": {}}, runs=entries, **fields).write(study)


def holds(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(str(path))
    return found
