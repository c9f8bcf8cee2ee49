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
from analysis.runs.runs import COLUMNS, ENDED, FROM_SUMMARY, Runs, check_row, leaves, level_text
from experiments.compared import RunSpec
from experiments.config import DEFAULTS, LOCATIONS, completed, plain_settings
from experiments.metric import known_metrics
from experiments.runs import record
from experiments.runs.exports import is_export, reused_runs
from experiments.runs.history import Look, read_looks
from experiments.study import STUDY, Reuse, Study
from vit.plugins import digest

NO_RECORD: dict[str, Any] = {"run_id": None, "epochs": 0, "hardware": "", "versions": ""}
"""What the row of a run without a record holds."""
VERSION = "provenance.versions."  # before the name of a package in a flat summary


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> Runs:
    """Read the study in a folder of run folders, OUT/STUDY.

    Raises `RecordError` naming the plan if it cannot be read, or the first record that is damaged, altered or different
    from the plan; with `skip_unreadable` such records are listed in `troubles` instead.
    """
    study_dir = Path(study_dir)
    plan = Study.read(study_dir)
    reader, sources = _Reader(study_dir, skip_unreadable), _Sources(plan)
    for planned in plan.runs:
        taken = sources.run(planned)
        if taken and not record.has_ended(study_dir / planned.name):
            reader.take(*taken, planned, plan.settings(planned))
        else:
            reader.read(planned)
    names = {planned.name for planned in plan.runs}
    for folder in sorted(study_dir.iterdir()):
        if folder.name not in names and (folder / record.CONFIG).is_file():
            reader.troubles[folder.name] = f"is not in {STUDY}, so it is not used"
            reader.rows.append({"run": folder.name, "variant": "", "status": "unplanned", **NO_RECORD})
    return reader.study(plan, tuple(read_looks(study_dir)))


class _Reader:
    """Reads run folders one by one, and collects what a `Runs` holds."""

    def __init__(self, folder: Path, skip: bool) -> None:
        self.folder, self.skip = folder, skip
        self.rows: list[dict[str, Any]] = []
        self.curves: list[dict[str, Any]] = []
        self.troubles: dict[str, str] = {}
        self.sources: dict[str, dict[str, str]] = {}

    def study(self, plan: Study, looks: tuple[Look, ...] = ()) -> Runs:
        """The study of all runs so far."""
        parts = {"folder": self.folder, "troubles": self.troubles, "sources": self.sources, "looks": looks}
        return Runs.of_rows(plan, self.rows, self.curves, **parts)

    def read(self, planned: RunSpec) -> None:
        """Read a planned run. One that has not ended has its settings from the plan."""
        folder, without = self.folder / planned.name, {**dict(leaves(planned.levels)), **NO_RECORD}
        row, epochs = {**without, "status": "incomplete"}, list[dict[str, Any]]()
        try:
            if record.has_ended(folder):
                run = record.read_run(folder, run_id=planned.run_id)
                row, epochs = _row(run), run.rows
                check_row({**row, "run": run.name, "variant": planned.variant}, folder / record.SUMMARY)
                _check_plan(folder / record.CONFIG, row, planned)
                self._read_plugin(run, row["plugin_digest"])
        except record.RecordError as error:
            if not self.skip:
                with record.advising(", or report without it by --skip-unreadable"):
                    raise
            self.troubles[planned.name] = str(error)
            row, epochs = {**without, "status": "unreadable"}, []
        self._add(planned, row, epochs)

    def take(self, source: str, study: Runs, row: dict[str, Any], planned: RunSpec, stated: dict[str, Any]) -> None:
        """Add a run that the study reuses. `stated`: the settings that differ from the defaults.

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
        values = {path: value for path, value in row.items() if path in (*COLUMNS, *DEFAULTS) or pd.notna(value)}
        self._add(planned, {**values, **settings, "reused_from": source}, epochs.to_dict("records"))

    def _add(self, planned: RunSpec, row: dict[str, Any], epochs: list[dict[str, Any]]) -> None:
        names = {"run": planned.name, "variant": planned.variant, "seed": planned.seed}
        self.rows.append({**row, **names, "run_id": row["run_id"] or planned.run_id or None})
        self.curves += [{**names, **epoch} for epoch in epochs]

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
        self.runs, self.studies = reused_runs(plan), dict[Reuse, tuple[Runs, dict[str, dict[str, Any]]]]()

    def run(self, planned: RunSpec) -> tuple[str, Runs, dict[str, Any]] | None:
        """Source, its runs, and the row of a run; None where no source has it."""
        if not (reused := self.runs.get(planned.run_id)):
            return None
        if reused.source not in self.studies:
            folder = Path(reused.source.folder)
            study = read_export(folder) if is_export(folder) else _own_runs(folder)
            ended = study.of(*ENDED).drop_duplicates("run_id")
            self.studies[reused.source] = study, ended.set_index("run_id", drop=False).to_dict("index")
        study, rows = self.studies[reused.source]
        return reused.source.name, study, rows[reused.summary["run_id"]]


def _own_runs(folder: Path) -> Runs:
    """The runs of a study's folder without those that it reuses."""
    plan, reader = Study.read(folder), _Reader(folder, False)
    for planned in plan.runs:
        reader.read(planned)
    return reader.study(plan)


def _row(run: record.RunRecord) -> dict[str, Any]:
    """The row of `Runs.runs`, without what a plan says of the run."""
    summary, settings = dict(leaves(run.summary)), dict(leaves(completed(run.config)))
    versions = sorted((path, value) for path, value in summary.items() if path.startswith(VERSION))
    return {
        **settings,
        "run_id": summary.get("run_id") or None,
        "status": run.summary["status"],
        "epochs": summary.get("epochs", 0),
        **{metric: summary.get(metric) for metric in known_metrics(summary)},
        **{column: summary.get(path) for column, path in FROM_SUMMARY.items()},
        "hardware": ", then ".join(dict.fromkeys(_devices(run.summary))),
        "versions": ", ".join(f"{path.removeprefix(VERSION)} {value}" for path, value in versions),
        "digest": summary.get("digest"),
        "reused_from": None,
    }


def _devices(summary: Mapping[str, Any]) -> Iterator[str]:
    """What each session of a run was trained on. An interrupted run may go on elsewhere."""
    provenance = summary.get("provenance") or {}
    for session in (*provenance.get("sessions", ()), provenance):
        hardware = session.get("hardware") or {}
        device, threads = hardware.get("device"), hardware.get("threads")
        name = str(hardware.get("name") or device or "")
        yield f"{name} ({device}, {threads} thread{'s' * (threads != 1)})" if threads else name


def _check_plan(source: object, row: Mapping[str, Any], planned: RunSpec) -> None:
    """Raise `RecordError` where a record belongs to another run than the plan says."""
    for name, value in {**dict(leaves(planned.levels)), "seed": planned.seed}.items():
        if row.get(name) != value:
            raise record.RecordError(f"{source}: {name} is {row.get(name)!r}, planned is {value!r}")
