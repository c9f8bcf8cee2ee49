"""The queue of a tuning: who trains a trial, what happens to those of a dead process, and what is pruned.

No training.
"""

import itertools
import sys
from dataclasses import replace

import optuna
import pytest
from stubbed import finish

from experiments.config import load
from experiments.errors import UserError
from experiments.tuned import best_trial
from sweeps.plan import apply_tuned, make_plan
from sweeps.queue.process import current_process
from sweeps.queue.storage import open_storage
from sweeps.queue.trials import PROCESS, stored_process
from sweeps.study import parse_study
from sweeps.tuning import tuning_queue
from sweeps.tuning.sampling import suggest
from sweeps.tuning.space import make_space
from sweeps.tuning.tuned import make_tuned, tuned_variant
from sweeps.tuning.tuning_plan import FIRST_SEED, TuningPlan
from sweeps.tuning.tuning_queue import TuningQueue

STUDY = {"name": "mine", "factors": {"model.pool": ["cls", "gap"]}, "seeds": 1, "base": {"train.epochs": 27}}
HERE = current_process()
DEAD = replace(HERE, pid=2**22 + 1, start="0")  # no process has this pid
OTHER_HOST = replace(HERE, host="elsewhere", boot="other", start="1")
pids = itertools.count(2**23)  # of workers


def queue_of(folder, sweep=HERE, trials=4, sampler="tpe", pruner="halving", params=None, variants=1, seeds=1, **study):
    """The queue of a tuning with so many variants, as a process of its own opens it."""
    plan = make_plan(parse_study({**STUDY, **study}, "mine"))
    plan = plan.model_copy(update={"runs": plan.runs[:variants]})
    space = make_space(params, load(plan.base), plan.runs)
    return TuningQueue(TuningPlan(plan, space, trials, sampler, pruner, seeds), folder, sweep, open_storage(folder))


def start(queue):
    """The trial that another worker of the sweep gets."""
    (assignment,) = queue.assign(replace(queue.sweep, pid=next(pids)))
    return assignment


def die(queue, assignments) -> None:
    """Let the worker and the sweep of these trials be dead."""
    for assignment in assignments:
        queue.store.rdb.set_trial_user_attr(assignment.trial_id, PROCESS, stored_process(DEAD, DEAD, 0.0))


def end(queue, assignment, status="finished", accuracy=0.9, epochs=27) -> str:
    """Leave the record of a trial, and settle it."""
    finish(queue.dir / assignment.run.name, assignment.run, status, epochs, **{"val/acc": accuracy})
    return queue.settle(assignment)


def row(epoch: int, accuracy: float) -> dict[str, float]:
    return {"epoch": epoch, "val/acc": accuracy, "val/loss": 1.0}


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
def test_a_trial_of_a_dead_process_goes_on_as_the_same_run(tmp_path, sampler):
    first = queue_of(tmp_path, sampler=sampler)
    begun = [start(first) for _ in range(3)]
    first.report(begun[0], row(1, 0.5))
    die(first, begun)
    second = queue_of(tmp_path, OTHER_HOST, sampler=sampler)
    taken = [start(second) for _ in range(4)]
    assert [trial.run for trial in taken[:3]] == [trial.run for trial in begun]
    assert len({trial.run.run_id for trial in taken}) == 4
    assert [trial.run.seed for trial in taken] == [FIRST_SEED + n for n in range(4)]
    assert second.assign(DEAD) == [] and second.left == 0
    assert first.heartbeat(begun) == begun and first.settle(begun[0]) == "taken over"  # it was only suspended
    second.store.now = lambda: 1e12
    assert second.heartbeat(taken) == []
    second.refresh()
    assert {worker.heartbeat for worker in second.state.running.values()} == {1e12}


@pytest.mark.parametrize(
    ("sampler", "stored"), [("tpe", 0), ("random", 0), ("qmc", 0), ("tpe", 1), ("random", 1), ("tpe", 2), ("random", 2)]
)
def test_a_trial_whose_process_died_before_it_had_all_settings_is_completed(tmp_path, monkeypatch, sampler, stored):
    for name in "ab":
        (tmp_path / name).mkdir()
    undisturbed = start(queue_of(tmp_path / "a", sampler=sampler))
    with monkeypatch.context() as killed:
        values = itertools.count()
        killed.setattr(
            tuning_queue, "suggest", lambda *given: suggest(*given) if next(values) < stored else sys.exit("killed")
        )
        with pytest.raises(SystemExit):
            start(queue_of(tmp_path / "b", sampler=sampler))
    assert start(queue_of(tmp_path / "b", sampler=sampler)).run == undisturbed.run


def test_a_trial_whose_process_died_while_it_was_settled_is_settled_again_and_counts_once(tmp_path):
    first = queue_of(tmp_path, trials=1)
    begun = start(first)
    first.store.rdb.set_trial_user_attr(
        first._trial_id("cls", 0), "status", "finished"
    )  # as if it had been killed here
    die(first, [begun])
    second = queue_of(tmp_path, trials=1)
    second.refresh()
    assert second.left == 1 and second.rows() == {"cls": []}
    assert end(second, start(second)) == "finished"
    assert second.left == 0 and [trial.status for trial in second.rows()["cls"]] == ["finished"]


@pytest.mark.parametrize("writes", [1, 2])
def test_a_failure_counts_once_if_the_connection_is_lost_while_it_is_stored(tmp_path, monkeypatch, writes):
    queue = queue_of(tmp_path)
    begun = start(queue)
    store, left = queue.store.rdb.set_trial_user_attr, iter(range(writes - 1))

    def lose_connection(*given):
        store(*given)
        if next(left, None) is None:
            raise ConnectionError

    with monkeypatch.context() as broken:
        broken.setattr(queue.store.rdb, "set_trial_user_attr", lose_connection)
        with pytest.raises(ConnectionError):
            queue.settle(begun, "failed", "boom")
    assert queue.settle(begun, "failed", "boom") == "failed"
    for left in (4, 3):
        assert queue.left == 4 and queue.settle(start(queue), "failed", "boom") == "failed" and queue.left == left


@pytest.mark.parametrize("sweep", [HERE, OTHER_HOST])
def test_a_trial_of_a_living_process_is_left_to_it(tmp_path, sweep):
    first = queue_of(tmp_path, sweep, trials=1)
    begun, other = start(first), queue_of(tmp_path, replace(HERE, pid=1), trials=1)
    assert other.assign(DEAD) == [] and list(other.state.running) == [begun.run.name]
    first.release()  # as Ctrl-C does
    assert start(other).run == begun.run
    end(other, replace(begun, process=other.sweep))
    first.refresh()
    assert first.state.ended == [begun.run.name] and not first.state.running


def test_variants_get_the_same_settings_and_seeds_in_turn_and_each_has_its_own_optuna_study(tmp_path):
    queue = queue_of(tmp_path, variants=2)
    runs = [start(queue).run for _ in range(6)]
    assert [run.variant for run in runs] == ["cls", "gap"] * 3
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert first.config.optim == second.config.optim and first.seed == second.seed
    names = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'optuna.db'}")
    assert sorted(name.rpartition(": ")[2] for name in names) == ["cls", "gap", "mine tuning"]


def test_three_failed_attempts_use_up_a_trial_and_interrupted_ones_do_not_count(tmp_path):
    queue = queue_of(tmp_path, trials=1)
    for reason in ("failed", "interrupted", "failed", "interrupted", "failed"):
        assert queue.left == 1
        assert queue.settle(start(queue), reason, "the worker was killed") == reason
    assert queue.left == 0
    (trial,) = queue.rows()["cls"]
    assert (trial.status, trial.val_acc, best_trial([trial])) == ("failed", None, None)


@pytest.mark.parametrize("pruner, ended", [("halving", {3, 9}), ("none", set())])
def test_low_trials_are_stopped_at_a_ninth_and_a_third_of_the_epochs(tmp_path, pruner, ended):
    """Trial n has the accuracy of 1 - n / 10, so that each is worse than those before it."""
    queue, stopped = queue_of(tmp_path, trials=6, pruner=pruner), set()
    for number in range(6):
        trial, accuracy = start(queue), 1 - number / 10
        last = next((epoch for epoch in range(1, 28) if queue.report(trial, row(epoch, accuracy))), None)
        stopped |= {last} - {None}
        end(queue, trial, "pruned" if last else "finished", accuracy, last or 27)
    assert stopped <= ended and bool(stopped) == bool(ended)
    states = [trial.state.name for trial in queue.studies["cls"].get_trials()]
    assert states[0] == "COMPLETE" and (set(states[1:]) == ({"PRUNED"} if ended else {"COMPLETE"}))
    assert queue.studies["cls"].best_trial.number == 0


@pytest.mark.parametrize("epochs, last", [(10, 3), (30, 9)])
@pytest.mark.parametrize("pruner", ["halving", "hyperband"])
def test_a_trial_is_not_stopped_after_a_third_of_the_epochs(tmp_path, pruner, epochs, last):
    """Each trial is the best one until the rung at a third of the epochs, then the lowest."""
    queue = queue_of(tmp_path, trials=8, pruner=pruner, base={"train.epochs": epochs})
    for number in range(8):
        trial = start(queue)
        for epoch in range(1, epochs + 1):
            accuracy = 0.5 + number / 100 if epoch <= last else 0.5 - number / 100
            assert not queue.report(trial, row(epoch, accuracy))
        end(queue, trial, epochs=epochs)


def test_a_trial_can_be_stopped_at_half_of_its_epochs_and_not_later(tmp_path):
    queue, stopped = queue_of(tmp_path, trials=4, base={"train.epochs": 6}), set()
    for number in range(4):
        trial, accuracy = start(queue), 1 - number / 10
        last = next((epoch for epoch in range(1, 7) if queue.report(trial, row(epoch, accuracy))), None)
        stopped.add(last)
        end(queue, trial, "pruned" if last else "finished", accuracy, last or 6)
    assert stopped == {None, 3}


def test_a_decision_to_prune_is_kept(tmp_path):
    queue = queue_of(tmp_path, trials=2)
    best = start(queue)
    assert not any(queue.report(best, row(epoch, 0.9)) for epoch in range(1, 28))
    low = start(queue)
    assert [queue.report(low, row(epoch, 0.1)) for epoch in (1, 2, 3)] == [False, False, True]
    die(queue, [low])  # before the worker has heard it
    after = queue_of(tmp_path, trials=2)
    taken = start(after)
    assert taken.run == low.run and after.report(taken, row(3, 0.1)) is True


def test_more_trials_extend_a_tuning_and_the_best_is_kept(tmp_path):
    queue = queue_of(tmp_path, trials=2)
    for accuracy in (0.8, 0.6):
        end(queue, start(queue), accuracy=accuracy)
    assert queue.assign(DEAD) == []
    more = queue_of(tmp_path, trials=3)
    end(more, start(more), "diverged", None)
    trials = more.rows()["cls"]
    assert [(t.status, t.val_acc) for t in trials] == [("finished", 0.8), ("finished", 0.6), ("diverged", None)]
    tuned = tuned_variant(more.variants["cls"], trials)
    assert (tuned.trial, tuned.val_acc, tuned.epochs) == (0, 0.8, 3 * 27)


def test_fewer_trials_than_a_variant_has_are_refused(tmp_path):
    queue = queue_of(tmp_path, trials=2, variants=2)
    for _ in range(3):  # two of the first variant, one of the second
        start(queue)
    with pytest.raises(UserError, match="--trials: 1 is not allowed: there are 2 trials of a variant already"):
        queue_of(tmp_path, trials=1, variants=2)


def test_a_trial_of_several_seeds_has_their_mean_and_trains_none_of_them_twice(tmp_path):
    first = queue_of(tmp_path, trials=2, seeds=3)
    for accuracy in (0.5, 0.9):
        assert end(first, start(first), accuracy=accuracy) == "finished"
    begun = start(first)
    assert first.settle(begun, "failed", "boom") == "failed" and first.rows() == {"cls": []}
    die(first, [start(first)])
    second = queue_of(tmp_path, OTHER_HOST, trials=2, seeds=3)
    taken = start(second)
    assert taken.run == begun.run
    end(second, taken, accuracy=0.1)
    assert second.settle(taken) == "finished"  # the answer was lost
    (trial,) = second.rows()["cls"]
    assert (trial.status, trial.epochs, trial.val_acc) == ("finished", 81, pytest.approx(0.5))
    assert trial.accuracies == {1_000_000: 0.5, 1_010_000: 0.9, 1_020_000: 0.1}
    assert second.studies["cls"].best_value == pytest.approx(0.5)
    after = start(second).run
    assert after.seed == 1_000_001 and after.config.optim != begun.run.config.optim and second.left == 0
    assert set(second.state.ended) == {path.name for path in second.dir.iterdir()}
    with pytest.raises(UserError, match="seed 1010000 was used for tuning"):
        plan = make_plan(parse_study({**STUDY, "seeds": [1_010_000]}, "mine"))
        plan = plan.model_copy(update={"runs": [run for run in plan.runs if run.variant == "cls"]})
        apply_tuned(plan, make_tuned(second.plan, second.rows()))


@pytest.mark.parametrize("status", ["diverged", "failed"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_seed_without_an_accuracy_leaves_its_trial_without_one_and_drops_the_seeds_after_it(tmp_path, place, status):
    queue = queue_of(tmp_path, trials=1, seeds=3)
    for _ in range(place):
        end(queue, start(queue))
    for _ in range(3 if status == "failed" else 1):
        trial = start(queue)
        queue.report(trial, row(1, 0.4))
        assert queue.settle(trial, "failed") == "failed" if status == "failed" else end(queue, trial, status, None, 1)
    assert queue.left == 0 and best_trial(queue.rows()["cls"]) is None and len(queue.state.dropped) == 2 - place
    (trial,) = queue.rows()["cls"]
    assert (trial.status, trial.val_acc) == (status, None)


def test_only_the_first_seed_of_a_trial_is_stopped_early(tmp_path):
    queue = queue_of(tmp_path, trials=2, seeds=2)
    for accuracy in (0.9, 0.1):  # the second seed of the best trial is lower than the other trial
        best = start(queue)
        assert not any(queue.report(best, row(epoch, accuracy)) for epoch in range(1, 28))
        end(queue, best, accuracy=accuracy)
    low = start(queue)
    assert [queue.report(low, row(epoch, 0.4)) for epoch in (1, 2, 3)] == [False, False, True]
    end(queue, low, "pruned", 0.4, 3)
    assert queue.left == 0 and len(queue.state.ended) == 3 and len(queue.state.dropped) == 1
    assert [(t.status, t.val_acc, t.epochs) for t in queue.rows()["cls"]] == [("finished", 0.5, 54), ("pruned", 0.4, 3)]


def test_whole_numbers_and_choices_are_tried_as_such(tmp_path):
    params = "train.batch_size=16..64,optim.name=adamw|sgd,optim.momentum=0..0.9"
    queue = queue_of(tmp_path, trials=8, params=params)
    configs = [start(queue).run.config for _ in range(8)]
    assert all(isinstance(config.train.batch_size, int) and 16 <= config.train.batch_size <= 64 for config in configs)
    assert {config.optim.name for config in configs} == {"adamw", "sgd"}
    assert all(0 <= config.optim.momentum <= 0.9 for config in configs)


def test_a_trial_of_another_program_is_one_line(tmp_path):
    (study,) = queue_of(tmp_path).studies.values()
    study.tell(study.ask(), 0.5)
    with pytest.raises(
        UserError, match=r"optuna\.db: trial 0 of the Optuna study 'mine tuning .*' is of another program; "
    ):
        queue_of(tmp_path)
