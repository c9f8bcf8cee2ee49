"""A sweep under fire: killed, starved of memory, run twice at once. Mostly with stub_sweep.py for training."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest

from experiments.errors import UserError
from experiments.runs.record import METRICS, is_finished
from experiments.runs.run import train
from sweeps.builtin import STUDIES
from sweeps.plan import make_plan, write
from sweeps.pool import Crew
from sweeps.process import LEASE, alive, owner
from sweeps.queue import Ledger
from sweeps.study import make

SUPPORT = Path(__file__).resolve().parents[1] / "support"
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 3}, "seeds": 3}


def _hear_ctrl_c() -> None:
    """Even where the tests themselves do not: what a shell starts in the background ignores it, and so do its children."""
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
            preexec_fn=_hear_ctrl_c,
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


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    return alive({**owner(pid)})


def tiny_plan(**fields):
    return make_plan(make({**STUDY, **fields}, "tiny"))


def test_killed_at_any_moment_it_ends_with_the_numbers_of_an_uninterrupted_one(tmp_path):
    settings = {"data.train_limit": 200, "model.depth": 1, "model.attn_drop_rate": 0.1, "train.epochs": 4}
    study = tmp_path / "real.yaml"
    study.write_text(json.dumps({**STUDY, "name": "real", "base": settings, "seeds": 2}))
    plan = make_plan(make(json.loads(study.read_text()), "real"))
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


def test_ctrl_c_ends_everything_and_says_how_to_go_on(stubbed):
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


def test_a_worker_that_is_killed_is_replaced_and_its_run_tried_again(stubbed):
    status, out, err = stubbed.run(**{"seed 1": "kill-once", "seed 2": "raise-once"})
    assert status == 0, err
    assert "6 finished" in out
    assert "killed by SIGKILL, perhaps for want of memory" in err
    assert "RuntimeError: out of cheese" in err
    assert set(stubbed.ended().values()) == {1}
    assert Counter(trial.state.name for trial in stubbed.trials()) == {"COMPLETE": 6, "FAIL": 4}


def test_what_fails_every_time_is_given_up_with_its_reason_and_the_rest_is_done(stubbed):
    status, out, err = stubbed.run(**{"seed 1": "raise"})
    assert status == 1
    assert "6 runs: 4 finished, 2 failed" in out, err
    (folder,) = stubbed.dir.glob("logits-s1-*")
    assert f"failed: {folder.name}: RuntimeError: out of cheese (see {folder}/error.txt)" in out
    assert "Traceback" in (folder / "error.txt").read_text()
    assert Counter(name for name, _ in stubbed.noted("start"))[folder.name] == 3
    assert stubbed.run()[0] == 0  # the cause is gone: the same command gives it three more attempts
    assert set(stubbed.ended().values()) == {1}


def test_bad_input_found_by_a_worker_stops_the_sweep_and_leaves_nothing(stubbed):
    status, out, err = stubbed.run("--out", str(stubbed.folder / "new" / "place"), **{"seed 0": "refuse"})
    assert status == 2
    assert out == ""
    assert err.startswith("vit-sweep: error: data.root: 'nowhere' holds no images")
    assert err.count("\n") == 1
    assert not (stubbed.folder / "new").exists()


def test_diverged_runs_have_ended_and_are_never_tried_again(stubbed):
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
        assert trial.params == {"model.head": run.variant, "seed": run.seed}
        assert trial.user_attrs["run_id"] == run.run_id
        assert trial.value == 0.5 + run.seed / 100  # the stub's val/acc


def test_finished_runs_are_skipped_though_the_queue_was_lost(stubbed):
    stubbed.run("--seeds", "2")
    (stubbed.dir / "optuna.db").unlink()
    status, _, err = stubbed.run()  # and with more seeds
    assert status == 0
    assert "4 of 6 runs have ended already" in err
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


def test_two_sweeps_at_once_share_the_runs(stubbed):
    sweeps = [stubbed.start(nap=0.1) for _ in range(2)]
    outs = [sweep.communicate(timeout=120) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], outs
    assert all("6 runs: 6 finished" in out for out, _ in outs)
    assert set(stubbed.ended().values()) == {1}
    assert len({pid for _, pid in stubbed.noted("end")}) > 2  # workers of both


def test_what_a_living_process_holds_is_waited_for_and_taken_over_when_it_dies(stubbed):
    holder = subprocess.Popen(["sleep", "600"])
    plan = tiny_plan()
    write(plan, stubbed.dir, "earlier")
    ledger = Ledger(plan, stubbed.dir, owner(holder.pid))
    ledger.reconcile()
    (claim,) = ledger.claim(owner(holder.pid))
    sweep = stubbed.start()
    stubbed.wait_for("end", 5)
    time.sleep(1.0)
    assert sweep.poll() is None
    assert claim.run.name not in stubbed.ended()
    holder.kill()
    holder.wait()
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 0
    assert f"waiting for {claim.run.name}: process {holder.pid} on" in err
    assert set(stubbed.ended().values()) == {1}
    assert len(stubbed.ended()) == 6


def test_a_queue_that_is_no_database_is_refused_in_a_line(stubbed):
    stubbed.run("--seeds", "1")
    (stubbed.dir / "optuna.db").write_text("something else, and long enough to be looked at" * 100)
    status, _, err = stubbed.run()
    assert status == 2
    assert "optuna.db: cannot be used" in err
    assert err.count("\n") == 1
    assert len(stubbed.ended()) == 2


def test_an_altered_record_is_refused_by_name(stubbed):
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
def ledger(tmp_path) -> Ledger:
    plan = tiny_plan()
    write(plan, tmp_path, "here")
    return Ledger(plan, tmp_path, owner())


def test_reconciling_twice_is_the_same_as_once(ledger):
    first, count = ledger.reconcile(), len(ledger.study.get_trials())
    assert ledger.reconcile() == first
    assert len(ledger.study.get_trials()) == count == 6


def test_another_machines_claim_holds_for_its_lease(ledger):
    ledger.reconcile()
    elsewhere = {"host": "elsewhere", "pid": 1, "start": "1", "beat": time.time()}
    (claim,) = ledger.claim(elsewhere)
    assert list(ledger.reconcile().running) == [claim.run.name]
    claim.owner["beat"] -= 2 * LEASE
    ledger.storage.set_trial_user_attr(claim.trial_id, "owner", claim.owner)
    assert len(ledger.reconcile().waiting) == 6
    (again,) = ledger.claim(owner())
    assert again.run == claim.run
    ledger.beat([again])
    assert list(ledger.reconcile().running) == [claim.run.name]


def test_a_claim_begins_with_a_sign_of_life(ledger):
    """A worker that has long been at work claims its next run: its last sign of life is not that of its start."""
    ledger.reconcile()
    (claim,) = ledger.claim({"host": "elsewhere", "pid": 1, "start": "1", "beat": time.time() - 2 * LEASE})
    assert list(ledger.reconcile().running) == [claim.run.name]


def test_what_failed_in_company_is_tried_alone(ledger):
    ledger.reconcile()
    together = ledger.claim(owner(), 3)
    assert len(together) == 3
    for claim in together:
        ledger.tell(claim, "failed", "no memory")
    ledger.reconcile()
    claims = [ledger.claim(owner(), 3) for _ in range(4)]  # in the plan's order; the other variant has never failed
    assert [len(taken) for taken in claims] == [1, 3, 1, 1]
    assert [taken[0].run for taken in claims if len(taken) == 1] == [claim.run for claim in together]


def test_a_metric_that_is_changed_before_a_run_has_ended_turns_the_queue(ledger):
    ledger.reconcile()
    turned = Ledger(tiny_plan(metric="test/loss"), ledger.dir, owner())
    assert turned.study.direction == optuna.study.StudyDirection.MINIMIZE
    assert len(turned.reconcile().waiting) == 6
    (claim,) = turned.claim(owner())
    again = Ledger(tiny_plan(), ledger.dir, owner())  # but not under somebody who is at work
    assert list(again.reconcile().running) == [claim.run.name]


def test_a_queue_that_cannot_be_written_is_one_line(ledger):
    ledger.reconcile()
    (ledger.dir / "optuna.db").chmod(0o444)
    with ledger.storage.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(
        UserError, match=r"optuna\.db: cannot be used \(attempt to write a readonly database\); it may be"
    ):
        ledger.claim(owner())


def test_a_dead_workers_claim_is_for_its_sweep_to_close(ledger, tmp_path):
    ledger.reconcile()
    worker = subprocess.Popen(["sleep", "600"])
    (claim,) = ledger.claim(owner(worker.pid))
    worker.kill()
    worker.wait()
    other = Ledger(tiny_plan(), tmp_path, owner())
    for one in (ledger, other):  # this process, whose claim it is, lives
        assert list(one.reconcile().running) == [claim.run.name]
    assert ledger.tell(claim, "failed", "no memory") == "failed"
    assert len(other.reconcile().waiting) == 6


def test_a_trial_that_nobody_owns_is_closed(ledger):
    ledger.reconcile()
    trial = ledger.study.get_trials()[0]
    ledger.storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.RUNNING)
    assert len(ledger.reconcile().waiting) == 6


def test_a_claim_that_was_taken_over_is_left_alone(ledger):
    ledger.reconcile()
    (claim,) = ledger.claim(owner())
    ledger.study.tell(claim.number, state=optuna.trial.TrialState.FAIL)  # as another machine does after the lease
    assert ledger.beat([claim]) == [claim]
    assert ledger.tell(claim, "failed", "late") == "taken over"
    assert len(ledger.reconcile().waiting) == 6


def test_a_worker_whose_run_was_taken_over_is_stopped_and_its_other_runs_are_free(ledger):
    ledger.reconcile()
    stopped, notes = [], []
    worker = SimpleNamespace(claims=ledger.claim(owner(), 2), stop=lambda: stopped.append(True))
    crew = Crew(ledger, None, 1, SimpleNamespace(note=notes.append), 2)
    crew.workers = [worker]
    lost, kept = worker.claims
    ledger.study.tell(lost.number, state=optuna.trial.TrialState.FAIL)  # as another machine does after the lease
    for claim in ledger.beat(worker.claims):
        crew._withdraw(claim)
    assert stopped == [True] and crew.workers == []
    assert notes == [f"{lost.run.name}: another sweep has taken it over"]
    assert kept.run.name in ledger.reconcile().waiting


def test_a_process_is_told_from_another_of_the_same_number():
    me = owner()
    assert alive(me)
    assert not alive({**me, "start": "1"})
    child = subprocess.Popen(["sleep", "600"])
    its = owner(child.pid)
    assert alive(its)
    child.kill()
    until(lambda: not alive(its), seconds=5)  # a zombie until it is waited for: dead already
    child.wait()
    assert not alive(its)


def test_a_cohort_is_made_of_runs_that_differ_in_seed_and_rates_only(tmp_path):
    factors = {"model.head": ["logits", "softmax"], "optim.lr": [0.1, 0.2]}
    plan = tiny_plan(factors=factors, seeds=2)  # four runs of either head
    write(plan, tmp_path, "here")
    ledger = Ledger(plan, tmp_path, owner())
    ledger.reconcile()
    first, second, third = (ledger.claim(owner(), most=3) for _ in range(3))
    assert [claim.run.levels["model.head"] for claim in first] == ["logits"] * 3
    assert [claim.run.levels["model.head"] for claim in second] == ["softmax"] * 3  # the plan's order: seed by seed
    assert [claim.run.levels["model.head"] for claim in third] == ["logits"]  # what is left of them, and no other
    assert len({claim.run.name for claim in first + second + third}) == 7


def test_many_processes_never_claim_the_same_run(tmp_path):
    plan = make_plan(STUDIES["position"])
    write(plan, tmp_path, "here")
    Ledger(plan, tmp_path, owner()).reconcile()
    code = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import stub_sweep  # without torch it starts sooner
from pathlib import Path
from sweeps.builtin import STUDIES
from sweeps.queue import Ledger
from sweeps.process import owner
from sweeps.plan import make_plan
ledger = Ledger(make_plan(STUDIES["position"]), Path({str(tmp_path)!r}), owner())
while claims := ledger.claim(owner()):
    print(claims[0].run.name)
"""
    options = {"cwd": SUPPORT.parents[1], "env": {**os.environ, "STUB": "{}"}, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", code], **options) for _ in range(3)]
    claimed = [name for process in processes for name in process.communicate(timeout=120)[0].split()]
    assert sorted(claimed) == sorted(run.name for run in plan.runs)
