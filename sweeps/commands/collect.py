"""`vit-sweep collect`: copy the records of a study's runs from the folders of other machines. Every digest is checked."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import folder
from experiments.errors import UserError
from experiments.runs.record import SUMMARY, Run, is_finished, read_bytes, read_run, read_summary, write_bytes
from experiments.study import StudyPlan
from sweeps.commands.arguments import add_study_dir_command, count, existing_study

if TYPE_CHECKING:
    from sweeps.queue.connect import Ended

DESCRIPTION = """\
Copy the records of a study's runs that lie in other folders, such as those of machines that do not share this one
(vit-sweep run --separate-folders). A folder is mounted here, or copied here by other means, for example with rsync.

A record is copied if all its files match their digests, and the record that the queue knows. A record that is here already
is never changed. The command says which records are still missing, and where they lie. Exit status 1 if any are."""


def add(commands: Any) -> None:
    """Add `collect`."""
    command = add_study_dir_command(
        commands, "collect", collect, help="copy the records that lie in other folders", description=DESCRIPTION
    )
    command.add_argument(
        "folders",
        nargs="*",
        metavar="FOLDER",
        type=folder,
        help="a study's folder with records; none: list what is missing",
    )


def collect(arguments: argparse.Namespace, command: str) -> int:
    """Copy what is missing. Returns 1 if records are still missing or were refused."""
    from sweeps.queue.connect import ended_runs

    study_dir = existing_study(arguments)
    names = {run.run_id: run.name for run in StudyPlan.read(study_dir).runs}
    ended = ended_runs(study_dir)
    collected = refused = 0
    for place in map(Path, arguments.folders):
        if not place.is_dir():
            raise UserError(f"FOLDER: {str(place)!r} is not a folder")
        for source in sorted(path.parent for path in place.glob(f"*/{SUMMARY}")):
            try:
                collected += _collect(source, study_dir, names, ended)
            except UserError as error:
                print(f"refused: {error}")
                refused += 1
    places = {names.get(key, known.run): known for key, known in ended.items()}
    missing = [run for run in places if not is_finished(study_dir / run)]
    for run in missing:
        print(f"missing: {run}, in {places[run].path} on {places[run].host}")
    here = sum(is_finished(study_dir / name) for name in names.values())
    print(f"{count(range(collected), 'record')} collected; {here} of {count(names, 'run')} have a record here")
    return 1 if missing or refused else 0


def _collect(source: Path, study_dir: Path, names: Mapping[str, str], ended: Mapping[str, Ended]) -> int:
    """Copy one record if it is missing. Returns the number of records copied. Raises `UserError` where it is refused."""
    summary = read_summary(source)
    if summary["run_id"] not in names:
        return 0  # of another study, or of runs that only the other folder plans
    target = study_dir / names[summary["run_id"]]
    if is_finished(target):
        if read_summary(target)["digest"] != summary["digest"]:
            raise UserError(f"{source}: another record of the run than {target}, which is kept")
        return 0
    known = ended.get(summary["run_id"])
    if known and known.digest not in (None, summary["digest"]):
        raise UserError(f"{source}: is not the record that the queue knows, which is in {known.path} on {known.host}")
    _copy(read_run(source, checkpoint=True, predictions=True), target)
    return 1


def _copy(run: Run, target: Path) -> None:
    """Copy the files of a record, checked again as they are written; the summary last, as training does."""
    for name, digest in run.summary["files"].items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, read_bytes(run.dir / name, digest))
    write_bytes(target / SUMMARY, (run.dir / SUMMARY).read_bytes())
