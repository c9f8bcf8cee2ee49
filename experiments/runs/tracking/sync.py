"""Send finished runs to W&B from their records. Again, it sends what is missing; W&B's own files are not used."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking import epoch_log, pictures, sent, server
from experiments.runs.tracking.epoch_log import RunInfo
from experiments.runs.tracking.mirror import kill, start
from experiments.runs.tracking.protocol import EXTRA_SECONDS, Messages, Options, Watchdog
from experiments.runs.tracking.settings import Tracking, token
from experiments.runs.tracking.wandb_run import INIT_SECONDS, Place, WandbRun, finish_seconds
from experiments.study import RunSpec, StudyPlan

ANSWER_SECONDS = 20  # that the server has to answer; nothing else waits here


@dataclass
class Synced:
    """What `sync` did: the names of the runs it sent, of those that W&B had already, and of those that have not ended.

    `where`: the project. `notes`: lines for the user.
    """

    sent: list[str]
    complete: list[str]
    unfinished: list[str]
    where: str
    notes: list[str]


def sync(
    folder: Path, tracking: Tracking, on_run: Callable[[str], None], only: Collection[str] | None = None
) -> Synced:
    """Send the finished runs of a folder, or `only` some; `on_run(name)` is called after each. Raises `UserError`.

    `folder`: of a study, or any folder of run folders. If W&B stops answering, the command ends with an error after a
    time limit, and can be run again.
    """
    infos, unfinished = _runs(folder, only)
    done = Synced([], [], unfinished, "", [])
    if not infos:
        raise UserError(f"{folder}: holds no finished runs")
    child = start(Options(folder, tracking, sync=[asdict(info) for info in infos]))
    assert child.stdout is not None
    try:
        for line in child.stdout:
            message = json.loads(line)
            if "say" in message:
                done.notes.append(message["say"])
            elif "error" in message:
                raise UserError(f"{message['error']}{_progress(done, infos)}")
            elif "where" in message:
                done.where = message["where"]
            else:
                (done.sent if message["new"] else done.complete).append(message["run"])
                on_run(message["run"])
        if len(done.sent) + len(done.complete) < len(infos):
            reason = done.notes[-1].removeprefix("tracking: ").partition(";")[0] if done.notes else "W&B stopped"
            raise UserError(f"{reason}{_progress(done, infos)}")
    finally:
        kill(child)
    return done


def send_to_agent(folder: Path, run: str, tracking: Tracking) -> str:
    """Send the record of a run that this command has not trained to the agent's W&B run. Returns what to say.

    It is empty where there is nothing to do: no agent, no record, or a run that was trained and mirrored here. A fault of
    W&B is what to say, and no error.
    """
    if not (tracking.agent and record.is_finished(folder / run) and server.wandb_mode(tracking.mode) == "online"):
        return ""
    with contextlib.suppress(OSError, ValueError):
        if epoch_log.read(epoch_log.path_of(folder, run)).session == tracking.session:
            return ""
    try:
        return (
            f"{run}: its record was sent to the agent's W&B run; {sync(folder, tracking, lambda _: None, [run]).where}"
        )
    except UserError as error:
        return f"tracking: {error}"


def _progress(done: Synced, infos: list[RunInfo]) -> str:
    complete = len(done.sent) + len(done.complete)
    return f"; W&B has {complete} of {len(infos)} runs; run the same command again to send the rest"


def _runs(folder: Path, only: Collection[str] | None) -> tuple[list[RunInfo], list[str]]:
    """The finished runs of a folder, and the names of the others. `only`: those that count."""
    try:
        is_folder = folder.is_dir()
    except OSError as error:  # a name that is too long, or a folder that this user cannot read
        raise UserError(f"{str(folder)!r} cannot be read: {error.strerror}") from error
    if not is_folder:
        raise UserError(f"{folder}: no such folder; give the folder of a study, OUT/STUDY")
    plan = StudyPlan.read(folder) if (folder / record.STUDY).is_file() else None
    if plan and plan.export is not None:
        raise UserError(f"{folder}: holds an exported study, which has no records")
    runs = {run.name: run for run in plan.runs} if plan else {}
    names = list(runs) if plan else _folders(folder)
    infos, unfinished = [], []
    for name in names if only is None else only:
        if record.is_finished(folder / name):
            infos.append(_info(folder / name, runs.get(name), plan.name if plan else ""))
        else:
            unfinished.append(name)
    return infos, unfinished


def _folders(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob(f"*/{record.CONFIG}"))


def _info(run_dir: Path, planned: RunSpec | None, study: str) -> RunInfo:
    summary = record.read_summary(run_dir)
    config = record.read_config(run_dir)
    variant, levels = (planned.variant, planned.levels) if planned else (config["model"]["pos_embed"], {})
    cost = {key: value for key, value in (summary.get("cost") or {}).items() if key.startswith(("params", "flops"))}
    commit = (summary.get("provenance") or {}).get("commit")
    return RunInfo(run_dir.name, summary["run_id"], variant, study, levels, config, cost, commit)


def send_records(options: Options, messages: Messages, watchdog: Watchdog) -> None:
    """Send the runs that the options name. Called in the process for W&B."""
    tracking = options.tracking
    try:
        project = server.project(tracking.project)
        with watchdog.limit(3 * ANSWER_SECONDS):
            entity = server.probe(tracking.entity, ANSWER_SECONDS)
        where = sent.address(server.base_url(), entity, project)
        messages.send(where=where)
        with watchdog.limit(3 * ANSWER_SECONDS):
            known = _digests(entity, project)
        place = Place(options.folder, token(options.folder), "online", project, entity, tracking.agent)
        for info in (RunInfo(**values) for values in options.sync or []):
            messages.send(run=info.run, new=_send(info, place, where, known, watchdog))
    except UserError as error:  # a record that cannot be read
        messages.send(error=str(error))
    except server.Unreachable as error:
        messages.send(error=f"W&B cannot be used ({error})")
    except Exception as error:  # of any family: wandb raises many
        messages.send(error=f"W&B failed ({server.brief(error)})")


def _send(info: RunInfo, place: Place, where: str, known: dict[str, str], watchdog: Watchdog) -> bool:
    """Send a run, unless the server has all of it. Returns whether anything was sent."""
    run = record.read_run(place.folder / info.run)
    digest = run.summary["digest"]
    wandb_id = place.wandb_id(info.run, info.run_id)
    if known.get(wandb_id) == digest and sent.is_marked(place.folder, info.run, digest, where, wandb_id):
        return False
    shown = _pictures(run, info)
    with watchdog.limit(INIT_SECONDS + EXTRA_SECONDS):
        opened = WandbRun(info, place)
    with watchdog.limit(2 * finish_seconds(info) + EXTRA_SECONDS):
        opened.epochs = list(_epochs(run, info, place.folder))
        opened.complete(run, shown)
    sent.mark(place.folder, info.run, digest, where, wandb_id)
    return True


def _epochs(run: record.Run, info: RunInfo, folder: Path) -> Iterator[dict[str, float]]:
    """The rows of a run, with the speed of the epochs where the epoch log of the same run knows it."""
    try:
        found = epoch_log.read(epoch_log.path_of(folder, info.run))
    except (OSError, ValueError):
        found = epoch_log.Entries()
    same = found.info is not None and found.info.run_id == info.run_id
    for row in run.rows:
        yield {**(found.epochs.get(row["epoch"], {}) if same else {}), **row}


def _pictures(run: record.Run, info: RunInfo) -> pictures.Pictures | None:
    """The pictures kept during training, else new ones; None where neither is possible, as without the dataset."""
    path = epoch_log.pictures_of(epoch_log.path_of(run.dir.parent, info.run))
    try:
        if not path.exists() and run.summary["status"] == "finished":
            path.parent.mkdir(parents=True, exist_ok=True)
            record.write_bytes(path, pictures.take_from_record(run.dir, run.config))
        return pictures.read(path)
    except Exception:  # such as a dataset that was moved: all else is sent
        return None


def _digests(entity: str, project: str) -> dict[str, str]:
    """W&B id -> the digest of the record that the server has, for the runs of a project."""
    import wandb

    try:
        runs = wandb.Api(timeout=ANSWER_SECONDS).runs(f"{entity}/{project}", lazy=False)
        return {run.id: run.summary.get("digest") for run in runs}
    except (ValueError, wandb.errors.Error):  # there is no such project yet
        return {}
