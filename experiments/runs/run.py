"""Train runs and write their records. Interrupted runs go on after their last epoch; cohorts train together."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from experiments.catalogue import DATASETS
from experiments.checks import check_plugin
from experiments.compared import RunSpec
from experiments.config import RunConfig
from experiments.data import loading
from experiments.data.folder import files_digest
from experiments.devices import free_memory, is_out_of_memory
from experiments.errors import UserError
from experiments.evaluation.measure import Measured, Tasks, after_epoch, measure, measure_finished, tasks_of
from experiments.files import lock_runs, read_json
from experiments.runs import predictions, provenance, record, resume
from experiments.runs.state import RunState, is_finite, remove_temporary_files, summary_of
from experiments.training.fit import Row, fit
from experiments.training.stacked import Stacked
from experiments.training.trainer import GRID_LIMIT, Solo

LOCK_SECONDS = 2.0  # for which a run is waited for that another process trains, or whose process is just ending
OnRow = Callable[[int, Row], bool | None]
Load = Callable[[RunConfig, torch.device], loading.Splits]


def train(
    runs: Sequence[RunSpec],
    folder: Path,
    *,
    device: str = "auto",
    on_row: OnRow | None = None,
    load: Load | None = None,
    test: bool = True,
) -> list[dict[str, Any] | None]:
    """Train the runs that are not finished, each in `folder`/its name. Returns the summaries of all, in order.

    A run is trained by the process that holds its lock, `folder`/locks/NAME. A run whose lock another process holds,
    for `LOCK_SECONDS` at least, is left out; its summary is None.

    Runs given together may differ only in seed. They are trained as one stacked model; where the memory of the GPU is
    exhausted, in two halves. `load` replaces
    `loading.load`. `on_row(index of the run, row)` is called after each epoch; it may return True to prune that run.
    Without `test` the test images are left out: the record has no test metrics and no test predictions.

    After an interruption the same call continues from each run's last finished epoch and ends with the same numbers. On
    a GPU this holds only for the same cohort on the same card, because another number of runs or another card rounds
    differently, and for at most 128 tokens: beyond that, PyTorch's attention adds parts of a gradient in an order that
    varies. The record names the members of the cohort (`cost.cohort_runs`).

    Raises `UserError` where the plug-in, the data, the device, the compiler or the folder cannot be used, and
    `RecordError` where a folder holds another run or a record that was changed.
    """
    torch_device, ended = pick_device(device), dict[str, dict[str, Any]]()
    left = [run for run in runs if not record.has_ended(folder / run.name)]
    if left:
        check_plugin(runs[0].config)
    for split_seed in dict.fromkeys(run.config.split_seed for run in left):  # several where it is per-seed
        members = [run for run in left if run.config.split_seed == split_seed]
        config = members[0].config
        splits = load(config, torch_device) if load else loading.load(config).to(torch_device)
        tasks = tasks_of(config, splits, torch_device, test)
        with lock_runs(folder, [run.name for run in members], LOCK_SECONDS) as locked:
            states = {
                i: RunState.open(run, folder / run.name)
                for i, run in enumerate(runs)
                if run in members and run.name in locked and not record.has_ended(folder / run.name)
            }
            for group in _groups(states, torch_device):
                _train_or_divide(group, tasks, torch_device, on_row, ended)
    return [ended.get(run.name) or _checked_summary(run, folder / run.name) for run in runs]


def pick_device(name: str) -> torch.device:
    """The torch device of that name; `auto` is the first GPU, and the CPU where there is no GPU.

    Raises `UserError` where there is no such device.
    """
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, dtype=torch.float64, device=device).item()  # training needs float64, which mps lacks
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        raise UserError(
            f"device: {name!r} is not available; allowed: auto, cpu, or a GPU's name such as cuda:0"
        ) from error
    return device


def cohort_sizes(runs: int, batch_size: int, device: torch.device) -> list[int]:
    """Divide runs into as few cohorts as the kernels of a GPU can process, of nearly equal size; returns the sizes."""
    most = max(1, GRID_LIMIT // batch_size) if device.type == "cuda" else runs
    cohorts = math.ceil(runs / most)
    return [runs // cohorts + (i < runs % cohorts) for i in range(cohorts)]


def _groups(states: dict[int, RunState], device: torch.device) -> Iterator[dict[int, RunState]]:
    """Divide the runs into groups that train together; see `cohort_sizes`.

    Members of a group have finished the same number of epochs (a kill between two saves separates a cohort). Runs that
    started together go on together, and a run that started alone stays alone, because another stack rounds differently.
    """
    at: dict[tuple[int, bool, tuple[str, ...]], list[int]] = {}
    for i, run in states.items():  # collected before training, which changes the number of epochs
        at.setdefault((len(run.rows), run.stacked is False, tuple(run.members)), []).append(i)
    for (_, alone, members), numbers in sorted(at.items()):
        if alone or members:
            sizes = [1] * len(numbers) if alone else [len(numbers)]
        else:
            sizes = cohort_sizes(len(numbers), states[numbers[0]].spec.config.train.batch_size, device)
        rest = iter(numbers)
        for size in sizes:
            yield {i: states[i] for i in itertools.islice(rest, size)}


def _train_or_divide(
    group: dict[int, RunState], tasks: Tasks, device: torch.device, on_row: OnRow | None, ended: dict[str, Any]
) -> None:
    """Train a group; where memory is exhausted, in two halves from the last saved epoch. Raises if one does not fit."""
    if device.type == "cuda":
        free_memory()  # of the trainer before
    try:
        return _train_group(group, tasks, device, on_row, ended)
    except RuntimeError as error:
        if len(group) == 1 or not is_out_of_memory(error):
            raise
    free_memory()  # here, because the exception refers to the model
    rest = {i: RunState.open(run.spec, run.dir) for i, run in group.items() if not record.has_ended(run.dir)}
    numbers, size = list(rest), (len(group) + 1) // 2
    for half in filter(None, (numbers[:size], numbers[size:])):
        _train_group({i: rest[i] for i in half}, tasks, device, on_row, ended)


def _train_group(
    group: dict[int, RunState], tasks: Tasks, device: torch.device, on_row: OnRow | None, ended: dict[str, Any]
) -> None:
    """Train runs that have finished the same number of epochs, as one model, to their end.

    `ended` gets the summary of each run that ends, by its name. A thread writes the records of an epoch while the next
    is trained.
    """
    numbers, runs, splits = list(group), list(group.values()), tasks.splits
    trainer = _start(runs, splits, device)
    for i, run in enumerate(runs):
        if run.status != "running":  # it diverged or was pruned just before the interruption
            ended[run.dir.name] = _finish(run, trainer, i, None, splits)
    if not any(run.status == "running" for run in runs):
        return
    writing: list[Future[None]] = []
    with ThreadPoolExecutor(1, "records") as writer, ExitStack() as at_end:
        at_end.callback(_wait, writing)  # also where training is interrupted
        before = time.perf_counter()
        for rows in fit(trainer, splits, len(runs[0].rows)):
            seconds = (time.perf_counter() - before) / len(runs)
            _wait(writing)  # for the previous epoch
            tensors = trainer.states()
            _measure_length(runs, rows, trainer, tasks)
            for i, (number, run) in enumerate(zip(numbers, runs, strict=True)):
                if run.status != "running":
                    continue
                writing.append(writer.submit(run.add_epoch(rows[i], tensors[i], seconds)))
                run.update_status(prune=bool(on_row and on_row(number, rows[i])))
                if run.status == "running":
                    continue
                _wait(writing)
                if run.status == "pruned":
                    run.save(tensors[i], durable=True)  # the decision is kept, and not made a second time
                ended[run.dir.name] = _finish(run, trainer, i, None, splits)  # before the next step changes its weights
            del tensors  # frees their memory before the next copy
            if not any(run.status == "running" for run in runs):
                return
            before = time.perf_counter()
    measured = measure_finished(trainer, tasks, [run.rows[-1] for run in runs])
    for i, (run, result) in enumerate(zip(runs, measured, strict=True)):
        if run.status == "running":
            ended[run.dir.name] = _finish(run, trainer, i, result, splits)


def _wait(writing: list[Future[None]]) -> None:
    """Wait until all records are written. Raises the error of the first that failed."""
    while writing:
        writing.pop(0).result()


def _measure_length(runs: list[RunState], rows: list[Row], trainer: Solo | Stacked, tasks: Tasks) -> None:
    """Evaluate the runs that have not diverged after this epoch, if `eval.epochs` names it and training goes on."""
    config, epoch = runs[0].spec.config, int(rows[0]["epoch"])
    if epoch not in config.eval.epochs or epoch == config.train.epochs:
        return
    sound = [run.status == "running" and is_finite(row) for run, row in zip(runs, rows, strict=True)]
    if not any(sound):
        return
    measured = measure(trainer, tasks)
    for run, row, result, is_sound in zip(runs, rows, measured, sound, strict=True):
        if is_sound:
            run.measured = {**run.measured, **after_epoch(result.metrics, row)}


def _start(runs: list[RunState], splits: loading.Splits, device: torch.device) -> Solo | Stacked:
    """Build the model of a group, load its state where it has one, and make the folders."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    stacked = len(runs) > 1 if runs[0].stacked is None else runs[0].stacked
    trainer = (Stacked if stacked else Solo)([run.spec.config for run in runs], len(splits.classes), device)
    resumed = bool(runs[0].rows)
    if resumed:
        trainer.load_states([run.tensors or {} for run in runs])
    members = [run.spec.run_id for run in runs] if stacked else []
    for run in runs:
        run.check_files(splits.files)
        run.tensors = None  # frees its memory
        run.start(stacked, members, provenance.session(device))
        if stacked and not resumed:
            run.save({}, durable=False)  # notes that it is one of a stack, in case it continues alone
    return trainer


def _finish(
    run: RunState, trainer: Solo | Stacked, i: int, measured: Measured | None, splits: loading.Splits
) -> dict[str, Any]:
    """Write the record of the group's i-th run. `measured` is None for a run that diverged or was pruned.

    Returns the summary.
    """
    test = measured.test if measured else None
    summary = summary_of(run, trainer, splits, measured.metrics if measured else None)
    y, classes = splits.test.y.cpu(), splits.classes
    images = predictions.to_bytes(test.hits, test.probabilities, y, classes) if test else None
    return run.seal(trainer.weights(i), summary, images)


def _checked_summary(run: RunSpec, folder: Path) -> dict[str, Any] | None:
    """The summary of a run; None if it has not finished. Raises `RecordError` where it cannot be used."""
    if not record.has_ended(folder):
        return None
    with record.advising():
        finished = record.read_run(folder, checkpoint=True, predictions=True, run_id=run.run_id)
    check_unchanged(run.config, (finished.summary.get("data") or {}).get("files"), folder)
    remove_temporary_files(folder)
    return finished.summary


def recorded_hash(run_dir: Path) -> str:
    """The hash of the images that a finished or interrupted run was trained on; "" if no record tells."""
    if not record.has_ended(run_dir):
        return str(resume.noted(run_dir, "files", ""))
    with contextlib.suppress(ValueError, AttributeError):  # whoever uses the record says what is wrong
        return str(read_json(run_dir / record.SUMMARY).get("data", {}).get("files", ""))
    return ""


def check_unchanged(config: RunConfig, files: str | None, folder: Path) -> None:
    """Raise `UserError` where the images do not match `files`, the hash in the record of the run in `folder`.

    Images of a class or a plug-in are only read for it where `data.root` is another one than in the record.
    """
    root = config.data.root
    if not files or not Path(root).is_dir():
        return
    is_folder = DATASETS[config.data.name].source == "folder"
    is_there = not is_folder and root == read_json(folder / record.CONFIG)["data"]["root"]
    if not is_there and files != (files_digest(root) if is_folder else loading.load(config).files):
        raise UserError(
            f"data.root: the files of {root!r} are not those of the run in {str(folder)!r}; restore them, or give the "
            "new run another folder (--out)"
        )
