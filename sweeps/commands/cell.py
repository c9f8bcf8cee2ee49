"""`vit-sweep cell`: train one run of a study, from any machine."""

import argparse
from dataclasses import replace
from typing import Any

from experiments.errors import UserError, say
from experiments.runs.record import ERROR
from experiments.tracker import Tracker
from experiments.tracking import add_tracking_arguments, agent_run
from sweeps.commands.arguments import PROG, add_study_dir_command, existing_study
from sweeps.commands.run import DEVICE, tracking_of
from sweeps.progress import result_text, shown_metric
from sweeps.study_folder import StudyFolder, read_study
from vit.registry import did_you_mean


def add(commands: Any) -> None:
    """Add `cell`."""
    command = add_study_dir_command(
        commands,
        "cell",
        cell,
        help="train one run of a study",
        description="Train one run of a study: for W&B agents, job arrays and scripts. If another process is training "
        "the run, wait for it, and go on with the run if that process ends early. Started by a W&B agent, it sends "
        "the run to the agent's W&B run; a run that has ended is mirrored from its record. The exit status is 0 if the "
        "run has ended with a record, whoever trained it, and 1 if it failed in every attempt.",
    )
    about = "the run, as `vit-sweep status --all` lists it; NAME alone works too"
    command.add_argument("run", nargs="?", metavar="run=NAME", help=about)
    about = "instead of run=NAME: the number of the run in study.json, from 0; more seeds change these numbers"
    command.add_argument("--index", metavar="N", help=about)
    command.add_argument("--device", default="auto", help=DEVICE)
    add_tracking_arguments(command)


def cell(arguments: argparse.Namespace, _: str) -> int:
    """Train one run. Returns 1 if it failed."""
    from sweeps.engines.local import LocalEngine, local_slots
    from sweeps.train_plan import train_plan

    study_dir = existing_study(arguments)
    plan = read_study(study_dir)
    if (arguments.run is None) == (arguments.index is None):
        raise UserError("RUN: expected either run=NAME or --index N")
    words = {word: run for i, run in enumerate(plan.runs) for word in (run.name, f"run={run.name}", f"--index {i}")}
    word = arguments.run if arguments.index is None else f"--index {arguments.index}"
    if word not in words:  # the nearest name only: there may be thousands
        near = did_you_mean(word, words, f"`{PROG} status {study_dir} --all` lists them")
        hint = near if arguments.index is None else f"expected 0 to {len(plan.runs) - 1}"
        raise UserError(f"RUN: {word!r} is not a run of {plan.name}; {hint}")
    run = words[word]
    folder = StudyFolder.read(plan.changed(runs=[run]), study_dir)
    StudyFolder(study_dir, plan, reused=folder.reused).ready()
    tracking = replace(tracking_of(arguments), agent=agent_run())
    with Tracker(tracking, study_dir) as tracker, LocalEngine(local_slots(arguments.device, 1)) as engine:
        failed = train_plan(folder, engine, tracker, cohort=1)
        if not failed:
            tracker.ended(run)  # also one that had ended before
    if failed:
        say(f"failed: {run.name}: {failed[run.name]} (see {study_dir / run.name / ERROR})")
        return 1
    say(f"{run.name}: {result_text(folder.ended[run.name], shown_metric(plan))}")
    return 0
