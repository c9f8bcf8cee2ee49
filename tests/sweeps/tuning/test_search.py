"""The trials of a variant: who trains them, what happens to those of a dead process, and what Optuna keeps. No training."""

import json
from dataclasses import asdict, replace

import numpy as np
import optuna
import pytest

from experiments.config import load
from experiments.errors import TakenOver
from experiments.tuned import Range, TunedTrial
from sweeps.plan import make_plan
from sweeps.queue.process import current_process
from sweeps.queue.storage import open_storage
from sweeps.study import parse_study
from sweeps.tuning.result import best_trial, importances, tuned_result
from sweeps.tuning.search import Search
from sweeps.tuning.space import default_space, parse_space
from sweeps.tuning.tuning_plan import FIRST_SEED, TuningPlan, rounded

STUDY = {"name": "mine", "factors": {"model.pool": ["cls", "gap"]}, "seeds": 2, "base": {"train.epochs": 27}}


def plan(trials=4, sampler="tpe", pruner="halving", params=None, **study) -> TuningPlan:
    study = make_plan(parse_study({**STUDY, **study}, "mine"))
    runs = study.runs[:2]
    space = parse_space(params, runs) if params else default_space(load(study.base), runs)
    return TuningPlan(study, space, trials, sampler, pruner)


def search(folder, process=None, variant=0, **options) -> Search:
    """The search of a variant, as a process of its own opens it."""
    own = plan(**options)
    return Search(own, own.variants[variant], open_storage(None, folder), process or current_process())


def row(epoch: int, accuracy: float) -> dict[str, float]:
    return {"epoch": epoch, "val/acc": accuracy, "val/loss": 1.0}


def summary(status="finished", accuracy=0.9, epochs=27) -> dict:
    return {"status": status, "epochs": epochs, "val/acc": accuracy, "val/loss": 1 - accuracy}


DEAD = replace(current_process(), pid=2**22 + 1, start="0")  # no process has this pid
OTHER_HOST = replace(current_process(), host="elsewhere", boot="other", start="1")


def die(own: Search, trials) -> None:
    """Give the trials to a process that is dead."""
    for trial in trials:
        own._open(trial.number).set_user_attr("process", asdict(DEAD))


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
def test_a_trial_of_a_dead_process_goes_on_with_the_same_run(tmp_path, sampler):
    first = search(tmp_path, sampler=sampler)
    begun = [first.next() for _ in range(3)]
    first.report(begun[0], row(1, 0.5))
    die(first, begun)
    second = search(tmp_path, OTHER_HOST, sampler=sampler)
    taken = [second.next() for _ in range(4)]
    assert [trial.run.name for trial in taken[:3]] == [trial.run.name for trial in begun]
    assert [trial.number for trial in taken] == [0, 1, 2, 3] and second.next() is None
    assert len({trial.run.run_id for trial in taken}) == 4
    assert [trial.run.seed for trial in taken] == [FIRST_SEED + n for n in range(4)]
    with pytest.raises(TakenOver):
        first.report(begun[0], row(2, 0.5))  # it was only suspended


def test_a_trial_whose_process_died_before_it_had_parameters_is_completed(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    undisturbed = search(tmp_path / "a").next()
    search(tmp_path / "b").study.ask()  # as if the process had been killed here
    found = search(tmp_path / "b").next()
    assert (found.number, found.run) == (0, undisturbed.run)


def test_a_trial_whose_process_died_while_it_was_settled_counts_once_and_is_settled_again(tmp_path):
    first = search(tmp_path, trials=1)
    begun = first.next()
    first._open(begun.number).set_user_attr("status", "finished")  # as if the process had been killed here
    die(first, [begun])
    second = search(tmp_path, trials=1)
    assert (second.counts(), second.rows()) == ((0, 1), [])
    taken = second.next()
    assert taken.run == begun.run
    second.settle(taken, summary())
    assert second.counts() == (1, 0)
    assert [found.status for found in second.rows()] == ["finished"]


@pytest.mark.parametrize("process", [current_process(), OTHER_HOST])
def test_a_trial_of_a_living_process_is_left_to_it(tmp_path, process):
    first = search(tmp_path, process, trials=1)
    begun = first.next()
    assert search(tmp_path, replace(current_process(), pid=1), trials=1).next() is None
    first.settle(begun, summary())
    assert search(tmp_path, trials=1).counts() == (1, 0)


def test_variants_get_the_same_numbers_and_each_has_its_own_optuna_study(tmp_path):
    one, two = search(tmp_path, variant=0), search(tmp_path, variant=1)
    for number in range(3):
        first, second = one.next().run, two.next().run
        assert first.config.optim == second.config.optim and first.seed == second.seed == FIRST_SEED + number
        assert first.config.model.pool != second.config.model.pool
    names = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'optuna.db'}")
    assert sorted(name.rpartition(": ")[2] for name in names) == ["cls", "gap"]


def test_an_attempt_that_fails_is_tried_again_and_three_use_up_the_trial(tmp_path):
    own = search(tmp_path, trials=1)
    for last in (False, False, True):
        trial = own.next()
        assert trial.number == 0 and own.fail(trial, "the worker was killed") is last
    assert own.next() is None
    (found,) = own.rows()
    assert (found.status, found.val_acc) == ("failed", None)
    assert best_trial(own.rows()) is None


@pytest.mark.parametrize("pruner, ended", [("halving", {3, 9}), ("none", set())])
def test_low_trials_are_stopped_at_a_ninth_and_a_third_of_the_epochs(tmp_path, pruner, ended):
    """Trial n has the accuracy of 1 - n / 10, so that each is worse than those before it."""
    own, stopped = search(tmp_path, trials=6, pruner=pruner), set()
    for number in range(6):
        trial = own.next()
        last = next((epoch for epoch in range(1, 28) if own.report(trial, row(epoch, 1 - number / 10))), None)
        stopped |= {last} - {None}
        own.settle(trial, summary("pruned" if last else "finished", 1 - number / 10, last or 27))
    assert stopped <= ended and bool(stopped) == bool(ended)
    states = [trial.state.name for trial in own.study.get_trials()]
    assert states[0] == "COMPLETE" and (set(states[1:]) == ({"PRUNED"} if ended else {"COMPLETE"}))
    assert own.study.best_trial.number == 0


@pytest.mark.parametrize("epochs, last", [(10, 3), (30, 9), (100, 33)])
@pytest.mark.parametrize("pruner", ["halving", "hyperband"])
def test_a_trial_is_not_stopped_after_a_third_of_the_epochs(tmp_path, pruner, epochs, last):
    """Each trial is the best one until the rung at a third of the epochs, then the lowest."""
    own = search(tmp_path, trials=8, pruner=pruner, base={"train.epochs": epochs})
    for number in range(8):
        trial = own.next()
        for epoch in range(1, epochs + 1):
            accuracy = 0.5 + number / 100 if epoch <= last else 0.5 - number / 100
            assert not own.report(trial, row(epoch, accuracy))
        own.settle(trial, summary(epochs=epochs))


def test_a_decision_to_prune_is_kept(tmp_path):
    own = search(tmp_path, trials=2)
    best = own.next()
    assert not any(own.report(best, row(epoch, 0.9)) for epoch in range(1, 28))
    low = own.next()
    assert [own.report(low, row(epoch, 0.1)) for epoch in (1, 2, 3)] == [False, False, True]
    die(own, [low])  # before the worker has heard it
    after = search(tmp_path, trials=2)
    taken = after.next()
    assert taken.run == low.run and after.report(taken, row(3, 0.1)) is True


def test_more_trials_extend_a_search_and_the_best_is_kept(tmp_path):
    own = search(tmp_path, trials=2)
    for accuracy in (0.8, 0.6):
        own.settle(own.next(), summary(accuracy=accuracy))
    assert own.next() is None
    more = search(tmp_path, trials=3)
    more.settle(more.next(), summary("diverged", float("nan")))
    assert [(found.status, found.val_acc) for found in more.rows()] == [
        ("finished", 0.8),
        ("finished", 0.6),
        ("diverged", None),
    ]
    tuned = tuned_result(replace(more.plan, study=_only(more)), {"cls": more.rows()})
    assert tuned.variants["cls"].val_acc == 0.8 and tuned.variants["cls"].epochs == 3 * 27
    json.dumps(tuned.tree(), allow_nan=False)


def _only(own: Search):
    """The plan of the study with the variant of this search only."""
    runs = [run for run in own.plan.study.runs if run.variant == own.variant.variant]
    return own.plan.study.model_copy(update={"runs": runs})


def test_the_best_is_decided_by_accuracy_then_loss_then_number():
    def trial(number, accuracy, loss, status="finished"):
        metrics = {"val/acc": accuracy, "val/loss": loss}
        return TunedTrial(variant="v", trial=number, seed=number, status=status, epochs=1, settings={}, **metrics)

    rows = [
        trial(0, 0.9, 0.5),
        trial(1, 0.95, 0.4),
        trial(2, 0.95, 0.3),
        trial(3, 0.95, 0.3),
        trial(4, 0.99, 0.1, "pruned"),
    ]
    assert best_trial(rows).trial == 2


def trial_row(number: int, accuracy: float, rate: float, decay: float) -> TunedTrial:
    """A finished trial of two settings."""
    settings = {"optim.lr": rate, "optim.weight_decay": decay}
    values = {"val/acc": accuracy, "val/loss": 1.0, "settings": settings}
    return TunedTrial(variant="v", trial=number, seed=number, status="finished", epochs=1, **values)


SPACE = {"optim.lr": Range(low=1e-4, high=1e-1, log=True), "optim.weight_decay": Range(low=0.0, high=1.0)}


def test_importances_find_the_setting_that_matters():
    rng = np.random.default_rng(0)
    rows = []
    for number in range(40):
        rate, decay = 10 ** rng.uniform(-4, -1), rng.uniform()
        accuracy = 0.9 - 0.2 * abs(np.log10(rate) + 2.5) + 0.001 * rng.standard_normal()
        rows.append(trial_row(number, accuracy, rate, decay))
    found = importances(SPACE, rows)
    assert found["optim.lr"] > 0.9 and sum(found.values()) == pytest.approx(1, abs=1e-3)
    assert importances(SPACE, rows[:7]) == {}


def test_trials_with_equal_accuracies_have_no_importances():
    assert importances(SPACE, [trial_row(n, 0.25, 0.001 * (n + 1), n / 10) for n in range(10)]) == {}


def test_a_setting_that_is_rounded_beyond_the_end_of_its_range_counts_as_the_end():
    space = {**SPACE, "optim.lr": Range(low=1e-4, high=0.0123456, log=True)}
    assert rounded({"optim.lr": 0.0123455}) == {"optim.lr": 0.01235}
    rows = [trial_row(n, 0.1 * n, 0.01235 if n == 9 else 0.001 * (n + 1), n / 10) for n in range(10)]
    assert sum(importances(space, rows).values()) == pytest.approx(1, abs=1e-3)


def test_the_default_space_leaves_factors_and_a_warm_up_without_effect_out():
    study = make_plan(parse_study({**STUDY, "factors": {"optim.lr": [0.1, 0.2]}}, "mine"))
    assert list(default_space(load(study.base), study.runs)) == ["optim.weight_decay", "optim.warmup_epochs"]
    study = make_plan(parse_study({**STUDY, "base": {"optim.schedule": "constant", "optim.lr": 0.02}}, "mine"))
    space = default_space(load(study.base), study.runs)
    assert list(space) == ["optim.lr", "optim.weight_decay"]
    assert (space["optim.lr"].low, space["optim.lr"].high, space["optim.lr"].log) == (0.002, 0.2, True)


def test_whole_numbers_and_choices_are_tried_as_such(tmp_path):
    own = search(tmp_path, trials=8, params="train.batch_size=16..64,optim.name=adamw|sgd,optim.momentum=0..0.9")
    configs = [own.next().run.config for _ in range(8)]
    assert all(isinstance(config.train.batch_size, int) and 16 <= config.train.batch_size <= 64 for config in configs)
    assert {config.optim.name for config in configs} == {"adamw", "sgd"}
    assert all(0 <= config.optim.momentum <= 0.9 for config in configs)
