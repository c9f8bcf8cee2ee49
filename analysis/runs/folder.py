"""Read the folder of a study: study.json and run folders.

A record that is damaged or altered is an error or, on request, excluded: its run has the status "unreadable". A planned
run that has not ended has the status "incomplete". No planned run is left out.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.runs.exported import read_export
from analysis.runs.runs import Runs
from analysis.runs.settings import leaves, level_text
from analysis.runs.source_run import COLUMNS, ENDED, SourceRun, check_row
from experiments.compared import RunSpec
from experiments.config import DEFAULTS, LOCATIONS, completed, plain_settings
from experiments.runs import record
from experiments.runs.exports import is_export, reused_runs
from experiments.runs.history import read_looks
from experiments.study import STUDY, Reuse, Study
from vit.plugins import digest


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> Runs:
    """Read the study in a folder of run folders, OUT/STUDY.

    Raises `RecordError` naming the plan if it cannot be read, or the first record that is damaged, altered or different
    from the plan; with `skip_unreadable` such records are listed in `troubles` instead.
    """
    study_dir = Path(study_dir)
    plan = Study.read(study_dir)
    reader, looks = _Reader(study_dir, skip_unreadable), tuple(read_looks(study_dir))
    return Runs.of_runs(plan, reader.planned_and_others(plan, _Sources(plan)), looks=looks, **reader.parts())


class _Reader:
    """Reads run folders one by one. What a `Runs` holds besides its frames is collected in the attributes."""

    def __init__(self, folder: Path, skip: bool) -> None:
        self.folder, self.skip = folder, skip
        self.troubles: dict[str, str] = {}
        self.sources: dict[str, dict[str, str]] = {}

    def parts(self) -> dict[str, Any]:
        """The fields of the `Runs`."""
        return {"folder": self.folder, "troubles": self.troubles, "sources": self.sources}

    def planned_and_others(self, plan: Study, sources: "_Sources") -> Iterator[SourceRun]:
        """The runs of a plan, also those that it reuses, and then those of the folder that are not in it."""
        names = {planned.name for planned in plan.runs}
        for planned in plan.runs:
            taken = sources.run(planned)
            if taken and not record.is_finished(self.folder / planned.name):
                yield self._taken(*taken, planned, plan.settings(planned))
            else:
                yield self.read(planned)
        for folder in sorted(self.folder.iterdir()):
            if folder.name not in names and (folder / record.CONFIG).is_file():
                self.troubles[folder.name] = f"is not in {STUDY}, so it is not used"
                yield SourceRun(folder.name, "unplanned")

    def read(self, planned: RunSpec) -> SourceRun:
        """A planned run. One that has not ended has its settings from the plan."""
        name, folder = planned.name, self.folder / planned.name
        try:
            if not record.is_finished(folder):
                return SourceRun(name, "incomplete")
            run = record.read_run(folder, run_id=planned.run_id)
            held = SourceRun(name, run.summary["status"], completed(run.config), "", run.summary, run.rows)
            check_row(held.row, folder / record.SUMMARY)
            _check_plan(folder / record.CONFIG, held.row, planned)
            self._read_plugin(run, held.row["plugin_digest"])
        except record.RecordError as error:
            if not self.skip:
                with record.advising(", or report without it by --skip-unreadable"):
                    raise
            self.troubles[name] = str(error)
            return SourceRun(name, "unreadable")
        return held

    def _taken(
        self, source: str, study: Runs, row: dict[str, Any], planned: RunSpec, stated: dict[str, Any]
    ) -> SourceRun:
        """A run that the study reuses. `stated`: the settings that differ from the defaults.

        Raises `RecordError` where its settings are not those of the plan, which may write them in another way.
        """
        settings = dict(leaves(json.loads(json.dumps({**DEFAULTS, **stated, "seed": planned.seed}))))
        theirs, ours = (plain_settings({path: of.get(path) for path in settings}) for of in (row, settings))
        for path in settings:
            if path not in LOCATIONS and level_text(theirs[path]) != level_text(ours[path]):
                what = f"{path} is {level_text(theirs[path])!r}, planned is {level_text(ours[path])!r}"
                raise record.RecordError(f"reuse: {source}: {row['run']}: {what}")
        if (digest := row["plugin_digest"]) in study.sources:
            self.sources[digest] = study.sources[digest]
        epochs = study.curves[study.curves["run"] == row["run"]].drop(columns=["run", "variant", "seed"])
        known = {path: value for path, value in row.items() if path in (*COLUMNS, *DEFAULTS) or pd.notna(value)}
        held = {**known, **settings, "run": planned.name, "reused_from": source}
        return SourceRun(planned.name, row["status"], held=held, rows=epochs.to_dict("records"))

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


class _Sources:
    """The sources of the runs that a study reuses, which are read where one of them is needed."""

    def __init__(self, plan: Study) -> None:
        self.runs, self.known = reused_runs(plan), dict[Reuse, tuple[Runs, dict[str, dict[str, Any]]]]()

    def run(self, planned: RunSpec) -> tuple[str, Runs, dict[str, Any]] | None:
        """Source, its runs, and the row of a run; None where no source has it."""
        if not (held := self.runs.get(planned.run_id)):
            return None
        if held.source not in self.known:
            folder = Path(held.source.folder)
            study = read_export(folder) if is_export(folder) else _own_runs(folder)
            ended = study.of(*ENDED).drop_duplicates("run_id")
            self.known[held.source] = study, ended.set_index("run_id", drop=False).to_dict("index")
        study, rows = self.known[held.source]
        return held.source.name, study, rows[held.summary["run_id"]]


def _own_runs(folder: Path) -> Runs:
    """The runs of a study's folder without those that it reuses."""
    plan, reader = Study.read(folder), _Reader(folder, False)
    return Runs.of_runs(plan, (reader.read(run) for run in plan.runs), **reader.parts())


def _check_plan(source: object, row: Mapping[str, Any], planned: RunSpec) -> None:
    """Raise `RecordError` where a record belongs to another run than the plan says."""
    for name, value in {**dict(leaves(planned.levels)), "seed": planned.seed}.items():
        if row.get(name) != value:
            raise record.RecordError(f"{source}: {name} is {row.get(name)!r}, planned is {value!r}")
