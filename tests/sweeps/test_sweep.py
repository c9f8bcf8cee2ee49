"""A sweep that is killed, runs out of memory or runs twice at once. Most tests replace training by stub_sweep.py."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest

from experiments.errors import UserError
from experiments.runs import resume
from experiments.runs.record import CHECKPOINT, CONFIG, METRICS, is_finished, write_summary
from experiments.runs.run import train
from sweeps.builtin import STUDIES
from sweeps.plan import make_plan
from sweeps.queue.process import LEASE_TIMEOUT, ProcessInfo, current_process, is_alive, process_info
from sweeps.queue.queue import Queue
from sweeps.study import parse_study
from sweeps.study_folder import write_plan
from sweeps.workers.pool import WorkerPool

SUPPORT = Path(__file__).resolve().parents[1] / "support"
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 3}, "seeds": 3}


def _restore_ctrl_c() -> None:
    """Restore the default action: a shell starts background jobs, and so their children, with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Stubbed:
    """`vit-sweep run` on a study of two heads with training replaced; `log` is what the workers noted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.dir = folder, folder / "log", folder / "tiny"
        (folder / "tiny.yaml").write_text(json.dumps(STUDY))

    def start(self, *options, **stub) -> subprocess.Popen:
        environment = {
            **os.environ,
            "STUB": json.dumps({"log": str(self.log), **stub}),
            "PYTHONPATH": str(SUPPORT.parents[1]),
        }
        command = [sys.executable, SUPPORT / "stub_sweep.py", "run", self.folder / "tiny.yaml", "--out", self.folder]
        return subprocess.Popen(
            [*map(str, command), "--workers", "2", *options],
            env=environment,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_restore_ctrl_c,
        )

    def run(self, *options, **stub) -> tuple[int, str, str]:
        process = self.start(*options, **stub)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def noted(self, word: str) -> list[tuple[str, int]]:
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(name, int(pid)) for kind, name, pid in lines if kind == word]

    def ended(self) -> Counter:
        return Counter(name for name, _ in self.noted("end"))

    def wait_for(self, word: str, count: int = 1) -> None:
        until(lambda: len(self.noted(word)) >= count)

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        return optuna.load_study(study_name="tiny", storage=f"sqlite:///{self.dir}/optuna.db").get_trials()


@pytest.fixture
def stubbed(tmp_path) -> Stubbed:
    return Stubbed(tmp_path)


def until(condition, seconds=180.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    return is_alive(process_info(pid))


def tiny_plan(**fields):
    return make_plan(parse_study({**STUDY, **fields}, "tiny"))


def test_killed_at_any_moment_it_ends_with_the_numbers_of_an_uninterrupted_one(tmp_path):
    settings = {"data.train_limit": 200, "model.depth": 1, "model.attn_drop_rate": 0.1, "train.epochs": 4}
    study = tmp_path / "real.yaml"
    study.write_text(json.dumps({**STUDY, "name": "real", "base": settings, "seeds": 2}))
    plan = make_plan(parse_study(json.loads(study.read_text()), "real"))
    for run in plan.runs:  # the oracle: each run alone, never interrupted
        train([run], tmp_path / "alone", device="cpu")
    command = [sys.executable, "-m", "sweeps.main", "run", str(study), "--out", str(tmp_path), "--tracking", "off"]
    sweep = subprocess.Popen([*command, "--workers", "2"], cwd=SUPPORT.parents[1], start_new_session=True)
    until(lambda: list((tmp_path / "real").glob(f"*/{METRICS}")))
    time.sleep(random.uniform(0, 0.5))
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    before = {run.name: is_finished(tmp_path / "real" / run.name) for run in plan.runs}
    again = subprocess.run(
        [*command, "--workers", "1"], cwd=SUPPORT.parents[1], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    for run in plan.runs:
        swept, alone = (tmp_path / place / run.name / METRICS for place in ("real", "alone"))
        assert swept.read_bytes() == alone.read_bytes(), before


def test_killed_again_and_again_no_run_is_trained_twice(stubbed):
    status, rng = None, random.Random(time.time_ns())
    for _ in range(6):
        sweep = stubbed.start(nap=0.1)
        try:
            status = sweep.wait(timeout=rng.uniform(1.0, 2.5))
        except subprocess.TimeoutExpired:
            sweep.kill()
            sweep.communicate()
    status, out, err = stubbed.run()
    assert (status, err.count("error")) == (0, 0), err
    assert "6 runs: 6 finished" in out
    assert set(stubbed.ended().values()) == {1}
    assert len(stubbed.ended()) == 6


def test_workers_die_with_the_sweep(stubbed):
    sweep = stubbed.start(nap=30)
    stubbed.wait_for("start", 2)
    workers = [pid for _, pid in stubbed.noted("start")]
    assert len(set(workers)) == 2
    sweep.kill()
    sweep.communicate()
    until(lambda: not any(map(lives, workers)), seconds=5)


def test_ctrl_c_ends_everything_and_says_how_to_resume(stubbed):
    sweep = stubbed.start(nap=30)
    stubbed.wait_for("start", 2)
    workers = [pid for _, pid in stubbed.noted("start")]
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, err = sweep.communicate(timeout=20)
    assert sweep.returncode == 130
    assert err.splitlines()[-1] == "vit-sweep: interrupted; run the same command again to resume"
    assert "Traceback" not in err
    assert not any(map(lives, workers))
    assert Counter(trial.user_attrs.get("reason") for trial in stubbed.trials())["interrupted"] == 2
    assert stubbed.run()[0] == 0
    assert len(stubbed.ended()) == 6


def test_a_killed_worker_is_replaced_and_its_run_is_tried_again(stubbed):
    status, out, err = stubbed.run(**{"seed 1": "kill-once", "seed 2": "raise-once"})
    assert status == 0, err
    assert "6 finished" in out
    assert "killed by SIGKILL (possibly out of memory)" in err
    assert "RuntimeError: out of cheese" in err
    assert set(stubbed.ended().values()) == {1}
    assert Counter(trial.state.name for trial in stubbed.trials()) == {"COMPLETE": 6, "FAIL": 4}


def test_a_run_that_always_fails_is_given_up_with_its_reason_and_the_others_finish(stubbed):
    status, out, err = stubbed.run(**{"seed 1": "raise"})
    assert status == 1
    assert "6 runs: 4 finished, 2 failed" in out, err
    (folder,) = stubbed.dir.glob("logits-s1-*")
    assert f"failed: {folder.name}: RuntimeError: out of cheese (see {folder}/error.txt)" in out
    assert "Traceback" in (folder / "error.txt").read_text()
    assert Counter(name for name, _ in stubbed.noted("start"))[folder.name] == 3
    assert stubbed.run()[0] == 0  # the cause is gone; the same command makes three more attempts
    assert set(stubbed.ended().values()) == {1}


def test_bad_input_found_by_a_worker_stops_the_sweep_and_leaves_nothing(stubbed):
    status, out, err = stubbed.run("--out", str(stubbed.folder / "new" / "place"), **{"seed 0": "refuse"})
    assert status == 2
    assert out.startswith("tiny: 2 variants x 3 seeds, 6 runs to train")  # said before a worker looks at the data
    assert err.startswith("vit-sweep: error: data.root: 'nowhere' holds no images")
    assert err.count("\n") == 1
    assert not (stubbed.folder / "new").exists()


def test_diverged_runs_are_not_tried_again(stubbed):
    status, out, _ = stubbed.run(**{"seed 1": "diverge"})
    assert status == 0
    assert "6 runs: 4 finished, 2 diverged" in out
    diverged = [trial for trial in stubbed.trials() if trial.user_attrs.get("status") == "diverged"]
    assert [trial.state.name for trial in diverged] == ["FAIL", "FAIL"]
    assert stubbed.run()[0] == 0
    assert set(Counter(name for name, _ in stubbed.noted("start")).values()) == {1}


def test_trials_carry_the_run_its_levels_and_its_validation_accuracy(stubbed):
    stubbed.run()
    plan = tiny_plan()
    trials = {trial.user_attrs["run"]: trial for trial in stubbed.trials()}
    assert trials.keys() == {run.name for run in plan.runs}
    for run in plan.runs:
        trial = trials[run.name]
        assert trial.params == {"model.head": run.variant}
        assert trial.user_attrs["seed"] == run.seed
        assert trial.user_attrs["run_id"] == run.run_id
        assert trial.value == 0.5 + run.seed / 100  # the stub's val/acc


def test_finished_runs_are_skipped_when_the_queue_is_lost(stubbed):
    stubbed.run("--seeds", "2")
    (stubbed.dir / "optuna.db").unlink()
    status, _, err = stubbed.run()  # and with more seeds
    assert status == 0
    assert "4 of 6 runs are already done" in err
    assert set(stubbed.ended().values()) == {1}
    assert Counter(trial.state.name for trial in stubbed.trials()) == {"COMPLETE": 6}
    assert json.loads((stubbed.dir / "study.json").read_text())["seeds"] == [0, 1, 2]
    before = len(stubbed.trials())
    assert stubbed.run("--seeds", "1")[0] == 0
    assert len(stubbed.trials()) == before


def test_a_run_whose_record_was_deleted_is_trained_again(stubbed):
    stubbed.run()
    (folder,) = stubbed.dir.glob("softmax-s2-*")
    (folder / "summary.json").unlink()
    assert stubbed.run()[0] == 0
    assert stubbed.ended()[folder.name] == 2
    assert sum(stubbed.ended().values()) == 7


def test_a_study_that_gains_a_factor_trains_only_the_new_runs(stubbed):
    assert stubbed.run("--seeds", "1")[0] == 0
    before = stubbed.ended()
    factors = {"model.head": ["logits", "softmax", "mlp"], "model.pool": ["gap", "cls"]}
    (stubbed.folder / "tiny.yaml").write_text(json.dumps({**STUDY, "factors": factors}))
    status, _, err = stubbed.run("--seeds", "1")
    assert status == 0, err
    assert "2 of 6 runs are already done" in err
    assert len(stubbed.ended()) == 6
    assert set(stubbed.ended().values()) == {1}
    assert before.keys() < stubbed.ended().keys()
    trials = stubbed.trials()
    assert sorted(trial.user_attrs["run"] for trial in trials) == sorted(stubbed.ended())
    assert all(trial.params.keys() == {"model.head", "model.pool"} for trial in trials)


def test_the_terminal_shows_what_starts_each_score_and_a_table(stubbed):
    """Two seeds end, with .50 and .51. By hand: mean 50.5, half = 12.706 x .707 / sqrt(2) = 6.4 points."""
    status, out, err = stubbed.run("--tracking", "off", **{"seed 2": "diverge"})
    assert status == 0, err
    first, *_, last = out.splitlines()
    assert first.startswith("tiny: 2 variants x 3 seeds, 6 runs to train with 2 workers on the CPU; metric test/acc,")
    assert "equivalence margin 1 point" in first
    assert err.count("finished, test/acc 51.0 %") == 2
    assert "50.5 ± 6.4  n = 2  logits (baseline, 1 diverged)" in out
    assert last == f"next: vit-report {stubbed.dir}"


def test_two_sweeps_at_once_share_the_runs(stubbed):
    sweeps = [stubbed.start(nap=0.3) for _ in range(2)]
    outs = [sweep.communicate(timeout=120) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], outs
    assert all("6 runs: 6 finished" in out for out, _ in outs)
    assert set(stubbed.ended().values()) == {1}
    assert len({pid for _, pid in stubbed.noted("end")}) > 2  # workers of both


def test_a_run_of_a_living_process_is_waited_for_and_taken_over_when_it_dies(stubbed):
    holder = subprocess.Popen(["sleep", "600"])
    plan = tiny_plan()
    write_plan(plan, stubbed.dir, "earlier")
    queue = Queue(plan, stubbed.dir, process_info(holder.pid))
    queue.reconcile()
    (assignment,) = queue.assign(process_info(holder.pid))
    sweep = stubbed.start()
    stubbed.wait_for("end", 5)
    time.sleep(1.0)
    assert sweep.poll() is None
    assert assignment.run.name not in stubbed.ended()
    holder.kill()
    holder.wait()
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 0
    assert f"waiting for {assignment.run.name}: process {holder.pid} on" in err
    assert set(stubbed.ended().values()) == {1}
    assert len(stubbed.ended()) == 6


def test_a_queue_that_is_not_a_database_gives_one_line(stubbed):
    stubbed.run("--seeds", "1")
    (stubbed.dir / "optuna.db").write_text("something else, and long enough to be looked at" * 100)
    status, _, err = stubbed.run()
    assert status == 2
    assert "optuna.db: cannot be used" in err
    assert err.count("\n") == 1
    assert len(stubbed.ended()) == 2


def test_a_changed_record_is_refused_by_name(stubbed):
    stubbed.run("--seeds", "1")
    (folder,) = stubbed.dir.glob("logits-s0-*")
    summary = folder / "summary.json"
    summary.write_text(summary.read_text().replace('"val/acc": 0.5', '"val/acc": 0.9'))
    (stubbed.dir / "optuna.db").unlink()
    status, _, err = stubbed.run()
    assert status == 2
    assert str(summary) in err
    assert err.count("\n") == 1


@pytest.fixture
def queue(tmp_path) -> Queue:
    plan = tiny_plan()
    write_plan(plan, tmp_path, "here")
    return Queue(plan, tmp_path, current_process())


def test_reconciling_twice_is_the_same_as_once(queue):
    queue.assign(current_process())
    first, count = queue.reconcile(), len(queue.study.get_trials())
    assert queue.reconcile() == first
    assert len(queue.study.get_trials()) == count == 1  # a trial is made when its run is assigned


def test_an_assignment_of_another_machine_ends_at_the_lease_timeout(queue):
    queue.reconcile()
    (assignment,) = queue.assign(ProcessInfo("elsewhere", 1, "1", time.time()))
    assert list(queue.reconcile().running) == [assignment.run.name]
    stored = queue.storage.get_trial(assignment.trial_id).user_attrs["owner"]
    silent = {**stored, "beat": stored["beat"] - 2 * LEASE_TIMEOUT}
    queue.storage.set_trial_user_attr(assignment.trial_id, "owner", silent)
    assert len(queue.reconcile().waiting) == 6
    (again,) = queue.assign(current_process())
    assert again.run == assignment.run
    queue.heartbeat([again])
    assert list(queue.reconcile().running) == [assignment.run.name]


def test_the_queue_of_an_earlier_version_is_understood(queue):
    (assignment,) = queue.assign(current_process())
    stored = {"host": "elsewhere", "pid": 1, "start": "1", "beat": time.time(), "sweep": {"pid": 2, "start": "2"}}
    queue.storage.set_trial_user_attr(assignment.trial_id, "owner", stored)
    assert list(queue.reconcile().running) == [assignment.run.name]


def test_an_assignment_starts_with_a_heartbeat(queue):
    """A worker that started long ago gets its next run: its heartbeat is not the time of its start."""
    queue.reconcile()
    (assignment,) = queue.assign(ProcessInfo("elsewhere", 1, "1", time.time() - 2 * LEASE_TIMEOUT))
    assert list(queue.reconcile().running) == [assignment.run.name]


def test_runs_that_failed_as_a_cohort_are_tried_alone(queue):
    queue.reconcile()
    together = queue.assign(current_process(), 3)
    assert len(together) == 3
    for assignment in together:
        queue.settle(assignment, "failed", "no memory")
    queue.reconcile()
    # in the order of the plan; the other variant has never failed
    assignments = [queue.assign(current_process(), 3) for _ in range(4)]
    assert [len(taken) for taken in assignments] == [1, 3, 1, 1]
    assert [taken[0].run for taken in assignments if len(taken) == 1] == [assignment.run for assignment in together]


def test_runs_interrupted_as_a_cohort_are_assigned_together_whatever_the_size_of_new_cohorts(queue):
    """The others are not added to them, so that a cohort on a GPU goes on with the numbers it would have had."""
    queue.reconcile()
    heads = [[run for run in queue.runs.values() if run.levels["model.head"] == head] for head in ("logits", "softmax")]
    members = [run.run_id for run in heads[0][:2]]
    for run in heads[0][:2]:
        (queue.dir / run.name).mkdir()
        resume.write(queue.dir / run.name, {"run_id": run.run_id, "rows": [], "members": members}, {}, durable=False)
    for size in (1, 5):
        taken = [queue.assign(current_process(), size) for _ in range(3)]
        assert [assignment.run for assignment in taken[0]] == heads[0][:2]
        assert [len(part) for part in taken[1:]] == ([1, 1] if size == 1 else [3, 1])
        for assignment in [assignment for part in taken for assignment in part]:
            queue.settle(assignment, "interrupted")
        queue.reconcile()


class FakeWorker:
    """A worker whose messages the test gives."""

    def __init__(self, config):
        self.config, self.info, self.pipe = config, current_process(), None
        self.assignments, self.upcoming, self.submitted, self.stopped = [], [], [], False

    def submit(self, runs, study_dir):
        self.submitted.append([run.name for run in runs])

    def receive(self):
        return self.message

    def stop(self, timeout=0.0):
        self.stopped = True


@pytest.fixture
def pool(queue):
    """A pool with one worker, which has the first cohort: two runs of three epochs."""
    display = SimpleNamespace(row=lambda *_: None, skip=lambda *_: None, ended=lambda *_: None, failed=lambda *_: None)
    pool = WorkerPool(queue, [None], display, 2, "test/acc")
    pool.workers = [FakeWorker(None)]
    queue.reconcile()
    pool._assign()
    return pool


def tell(pool, *message):
    (worker,) = pool.workers
    worker.message = message
    pool._receive(worker)


def test_a_worker_gets_its_next_runs_in_the_last_epoch_of_a_cohort(pool):
    (worker,), names = pool.workers, [run.name for run in pool.queue.runs.values()]
    tell(pool, "row", 0, {"epoch": 1})
    assert len(worker.submitted) == 1
    for job in (0, 1):
        tell(pool, "row", job, {"epoch": 2})  # two of three epochs are done
    assert len(worker.submitted) == 2
    first, second = worker.submitted
    assert [a.run.name for a in worker.assignments] == first and [a.run.name for a in worker.upcoming] == second
    assert set(pool.queue.reconcile().running) == {*first, *second}
    for name in first:
        (pool.queue.dir / name).mkdir()
        for file in (CONFIG, METRICS, CHECKPOINT):
            (pool.queue.dir / name / file).write_text("{}")
        summary = {"run_id": pool.queue.runs[name].run_id, "status": "finished", "val/acc": 0.5}
        write_summary(pool.queue.dir / name, summary)
    tell(pool, "done")
    assert [a.run.name for a in worker.assignments] == second and worker.upcoming == []
    assert pool.busy == [worker]
    assert set(pool.queue.reconcile().waiting) == {*names} - {*first, *second}


def test_runs_that_were_not_begun_are_not_failed_with_those_that_were(pool):
    (worker,) = pool.workers
    tell(pool, "row", 0, {"epoch": 2})
    first, second = worker.submitted
    tell(pool, "died", "the worker was killed by SIGKILL")
    assert worker.stopped and pool.workers == []
    reasons = {
        t.user_attrs["run"]: t.user_attrs["reason"] for t in pool.queue.study.get_trials() if "reason" in t.user_attrs
    }
    assert reasons == {**dict.fromkeys(first, "failed"), **dict.fromkeys(second, "interrupted")}
    assert {*first, *second} <= set(pool.queue.reconcile().waiting)


def test_changing_the_metric_before_a_run_has_ended_changes_the_direction(queue):
    queue.reconcile()
    assert queue.study.metric_names == ["val/acc"]
    turned = Queue(tiny_plan(metric="test/loss"), queue.dir, current_process())
    assert turned.study.direction == optuna.study.StudyDirection.MINIMIZE
    assert turned.study.metric_names == ["val/loss"]
    assert len(turned.reconcile().waiting) == 6
    (assignment,) = turned.assign(current_process())
    again = Queue(tiny_plan(), queue.dir, current_process())  # unless a process is training
    assert list(again.reconcile().running) == [assignment.run.name]


def test_a_queue_that_cannot_be_written_is_one_line(queue):
    queue.reconcile()
    (queue.dir / "optuna.db").chmod(0o444)
    with queue.store.rdb.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(
        UserError,
        match=r"optuna\.db: cannot be used \(attempt to write a readonly database\); if it is damaged, delete it",
    ):
        queue.assign(current_process())


def test_the_sweep_of_a_dead_worker_settles_its_assignment(queue, tmp_path):
    queue.reconcile()
    worker = subprocess.Popen(["sleep", "600"])
    (assignment,) = queue.assign(process_info(worker.pid))
    worker.kill()
    worker.wait()
    other = Queue(tiny_plan(), tmp_path, current_process())
    for one in (queue, other):  # this process is the sweep, and it is alive
        assert list(one.reconcile().running) == [assignment.run.name]
    assert queue.settle(assignment, "failed", "no memory") == "failed"
    assert len(other.reconcile().waiting) == 6


def test_a_running_trial_without_a_process_is_closed(queue):
    """An earlier version was killed between two steps that are one now."""
    run = next(iter(queue.runs.values()))
    attrs = {"run": run.name, "run_id": run.run_id, "variant": run.variant}
    running = optuna.trial.TrialState.RUNNING
    trial = optuna.trial.create_trial(
        state=running, params=run.levels, distributions=queue.distributions, user_attrs=attrs
    )
    queue.study.add_trial(trial)
    assert len(queue.reconcile().waiting) == 6
    assert [trial.state.name for trial in queue.study.get_trials()] == ["FAIL"]


def test_an_assignment_that_was_taken_over_is_not_changed(queue):
    queue.reconcile()
    (assignment,) = queue.assign(current_process())
    queue.study.tell(
        assignment.number, state=optuna.trial.TrialState.FAIL
    )  # as another machine does after the lease timeout
    assert queue.heartbeat([assignment]) == [assignment]
    assert queue.settle(assignment, "failed", "late") == "taken over"
    assert len(queue.reconcile().waiting) == 6


def test_a_worker_whose_run_was_taken_over_is_stopped_and_its_other_runs_are_enqueued(queue):
    queue.reconcile()
    stopped, notes = [], []
    worker = SimpleNamespace(
        assignments=queue.assign(current_process(), 2), upcoming=[], stop=lambda: stopped.append(True)
    )
    pool = WorkerPool(queue, [None], SimpleNamespace(note=notes.append), 2, "test/acc")
    pool.workers = [worker]
    lost, kept = worker.assignments
    queue.study.tell(lost.number, state=optuna.trial.TrialState.FAIL)  # as another machine does after the lease timeout
    for assignment in queue.heartbeat(worker.assignments):
        pool._withdraw(assignment)
    assert stopped == [True] and pool.workers == []
    assert notes == [f"{lost.run.name}: another sweep has taken it over"]
    assert kept.run.name in queue.reconcile().waiting


def test_a_process_is_told_from_a_later_one_with_the_same_pid():
    me = current_process()
    assert is_alive(me)
    assert not is_alive(replace(me, start="1"))
    child = subprocess.Popen(["sleep", "600"])
    its = process_info(child.pid)
    assert is_alive(its)
    child.kill()
    until(lambda: not is_alive(its), seconds=5)  # a zombie until it is waited for: dead already
    child.wait()
    assert not is_alive(its)


def test_a_cohort_has_runs_that_differ_only_in_seed_and_rates(tmp_path):
    factors = {"model.head": ["logits", "softmax"], "optim.lr": [0.1, 0.2]}
    plan = tiny_plan(factors=factors, seeds=2)  # four runs of either head
    write_plan(plan, tmp_path, "here")
    queue = Queue(plan, tmp_path, current_process())
    queue.reconcile()
    first, second, third = (queue.assign(current_process(), max_runs=3) for _ in range(3))
    heads = [[assignment.run.levels["model.head"] for assignment in part] for part in (first, second, third)]
    assert heads == [["logits"] * 3, ["softmax"] * 3, ["logits"]]  # in the order of the plan, seed by seed
    assert len({assignment.run.name for assignment in first + second + third}) == 7


def test_many_processes_never_get_the_same_run(tmp_path):
    plan = make_plan(STUDIES["position"])
    write_plan(plan, tmp_path, "here")
    Queue(plan, tmp_path, current_process()).reconcile()
    code = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import stub_sweep  # without torch it starts sooner
from pathlib import Path
from sweeps.builtin import STUDIES
from sweeps.queue.queue import Queue
from sweeps.queue.process import current_process
from sweeps.plan import make_plan
queue = Queue(make_plan(STUDIES["position"]), Path({str(tmp_path)!r}), current_process())
while assignments := queue.assign(current_process()):
    print(assignments[0].run.name)
"""
    options = {"cwd": SUPPORT.parents[1], "env": {**os.environ, "STUB": "{}"}, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", code], **options) for _ in range(3)]
    assigned = [name for process in processes for name in process.communicate(timeout=120)[0].split()]
    assert sorted(assigned) == sorted(run.name for run in plan.runs)
