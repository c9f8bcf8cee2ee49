"""Read a folder of run folders: of a study, or without a study.json, as vit-train leaves them.

A record that is damaged or altered is an error or, on request, excluded: its run has the status "unreadable". A planned
run that has not ended has the status "incomplete". No planned run is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.asked import Asked
from analysis.runs.hits import RunHits, read_hits
from analysis.runs.inferred import infer
from analysis.runs.runs import Runs
from analysis.runs.settings import leaves
from analysis.runs.source_run import SourceRun, check_row
from experiments.config import completed
from experiments.runs import record
from experiments.runs.history import read_looks
from experiments.study import STUDY, RunSpec, StudyPlan
from vit.plugins import digest


def has_runs(folder: Path) -> bool:
    """Whether the folder holds run folders. Trials of a tuning are none."""
    return not (folder / record.TRIALS).is_file() and next(folder.glob(f"*/{record.CONFIG}"), None) is not None


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> Runs:
    """Read the study in a folder of run folders, OUT/STUDY.

    Raises `RecordError` naming the plan if it cannot be read, or the first record that is damaged, altered or different
    from the plan; with `skip_unreadable` such records are listed in `troubles` instead.
    """
    study_dir = Path(study_dir)
    plan = StudyPlan.read(study_dir)
    reader = _Reader(study_dir, skip_unreadable)
    looks = tuple(read_looks(study_dir))
    return Runs.of_runs(plan, reader.planned_and_others(plan), looks=looks, **reader.parts())


def read_runs(folder: Path, asked: Asked) -> Runs:
    """Infer a study from the run folders in a folder. Raises `RecordError` for a record that is damaged or altered."""
    reader = _Reader(folder, asked.skip_unreadable)
    runs = [reader.read(path.parent.name) for path in sorted(folder.glob(f"*/{record.CONFIG}"))]
    readable = [run for run in runs if run.status != "unreadable"]
    return infer(str(folder), readable, asked, **reader.parts())


class _Reader:
    """Reads run folders one by one. What a `Runs` holds besides its frames is collected in the attributes."""

    def __init__(self, folder: Path, skip: bool) -> None:
        self.folder, self.skip = folder, skip
        self.troubles: dict[str, str] = {}
        self.sources: dict[str, dict[str, str]] = {}
        self.hits: dict[str, RunHits] = {}
        self.labels: dict[str, np.ndarray] = {}  # of the test images; see read_hits

    def parts(self) -> dict[str, Any]:
        """The fields of the `Runs`."""
        return {"folder": self.folder, "troubles": self.troubles, "sources": self.sources, "hits": self.hits}

    def planned_and_others(self, plan: StudyPlan) -> Iterator[SourceRun]:
        """The runs of a plan, and then those of the folder that are not in it."""
        names = {planned.name for planned in plan.runs}
        yield from (self.read(planned.name, planned) for planned in plan.runs)
        for folder in sorted(self.folder.iterdir()):
            if folder.name not in names and (folder / record.CONFIG).is_file():
                self.troubles[folder.name] = f"is not in {STUDY}, so it is not used"
                yield SourceRun(folder.name, "unplanned")

    def read(self, name: str, planned: RunSpec | None = None) -> SourceRun:
        """The run in a folder. A planned run that has not ended has its settings from the plan."""
        folder = self.folder / name
        try:
            if not record.is_finished(folder):
                config = {} if planned else completed(record.read_json(folder / record.CONFIG))
                return SourceRun(name, "incomplete", config)
            run = record.read_run(folder, run_id=planned.run_id if planned else None)
            held = SourceRun(name, run.summary["status"], completed(run.config), "", run.summary, run.rows)
            check_row(held.row, folder / record.SUMMARY)
            if planned:
                _check_plan(folder, held.row, planned)
            hits = read_hits(run, held.row, self.labels)
            self._read_plugin(run, held.row["plugin_digest"])
        except record.RecordError as error:
            if not self.skip:
                with record.advising(", or report without it by --skip-unreadable"):
                    raise
            self.troubles[name] = str(error)
            return SourceRun(name, "unreadable")
        if hits is not None:
            self.hits[name] = hits
        return held

    def _read_plugin(self, run: record.RunRecord, expected: str | None) -> None:
        """Keep the source of a run's plug-in. Raises `RecordError` where the copy was changed."""
        if expected is None or expected in self.sources:
            return
        prefix = f"{record.PLUGIN}/"
        digests = {name: sha256 for name, sha256 in run.summary["files"].items() if name.startswith(prefix)}
        files = {name.removeprefix(prefix): record.read_bytes(run.dir / name, digests[name]) for name in digests}
        if digest(files) != expected:
            raise record.RecordError(f"{run.dir / record.PLUGIN}: does not match its digest in {record.SUMMARY}")
        self.sources[expected] = {name: body.decode(errors="replace") for name, body in files.items()}


def _check_plan(folder: Path, row: Mapping[str, Any], planned: RunSpec) -> None:
    """Raise `RecordError` where a record belongs to another run than the plan says."""
    for name, value in {**dict(leaves(planned.levels)), "seed": planned.seed}.items():
        if row.get(name) != value:
            raise record.RecordError(f"{folder / record.CONFIG}: {name} is {row.get(name)!r}, planned is {value!r}")
