"""The trials of a tuning: their settings and seeds, what goes on after a kill, and what is pruned. No training."""

import time
from collections import Counter

import optuna
import pytest
from stubbed import finish

from experiments.compared import RunSpec
from experiments.config import load
from experiments.errors import UserError
from experiments.files import write_json
from experiments.runs import record, resume
from experiments.tuned import best_trial
from sweeps.plan import apply_tuned, make_plan, parse_study
from sweeps.tuning.trials import Trials
from sweeps.tuning.tuned import make_tuned, tuned_variant
from sweeps.tuning.tuning_plan import FIRST_SEED, JOURNAL, TuningPlan, make_space

STUDY = {"name": "mine", "factors": {"model.pool": ["cls", "gap"]}, "seeds": 1, "base": {"train.epochs": 27}}


def trials_of(folder, trials=4, sampler="tpe", pruner="halving", params=None, variants=1, seeds=1, **study):
    """The trials of a tuning with so many variants, as a driver opens them."""
    plan = make_plan(parse_study({**STUDY, **study}, "mine"))
    plan = plan.model_copy(update={"runs": plan.runs[:variants]})
    space = make_space(params, load(plan.base), plan.runs)
    return Trials(TuningPlan(plan, space, trials, sampler, pruner, seeds), folder)


def start(trials):
    """The next run."""
    (run,) = trials.next()
    return run


def end(trials, run, status="finished", accuracy=0.9, epochs=27) -> None:
    """Leave the record of a run, and settle it."""
    finish(trials.folder / run.name, run, status, epochs, **{"val/acc": accuracy})
    trials.ended(run, record.read_summary(trials.folder / run.name))


def save(trials, run, *rows) -> None:
    """Leave what a run that is interrupted after these epochs leaves: (epoch, accuracy)."""
    (trials.folder / run.name).mkdir(parents=True)
    write_json(trials.folder / run.name / record.CONFIG, run.config.model_dump())
    note = {"rows": [row(*each) for each in rows], "status": "running"}
    resume.write(trials.folder / run.name, note, {})


def row(epoch: int, accuracy: float) -> dict[str, float]:
    return {"epoch": epoch, "val/acc": accuracy, "val/loss": 1.0}


def dropped(trials) -> list[RunSpec]:
    """Gets the runs that nobody will train."""
    runs: list[RunSpec] = []
    trials.drop = runs.extend
    return runs


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
def test_after_a_kill_trials_go_on_as_the_same_runs_and_new_ones_are_those_of_an_undisturbed_tuning(tmp_path, sampler):
    for name in "ab":
        (tmp_path / name).mkdir()
    undisturbed = trials_of(tmp_path / "a", sampler=sampler)
    expected = [start(undisturbed) for _ in range(4)]
    first = trials_of(tmp_path / "b", sampler=sampler)
    assert [start(first) for _ in range(3)] == expected[:3]
    second = trials_of(tmp_path / "b", sampler=sampler)
    assert [start(second) for _ in range(4)] == expected
    assert [run.seed for run in expected] == [FIRST_SEED + n for n in range(4)]
    assert second.next() == [] and second.left == 0
    third = trials_of(tmp_path / "b", sampler=sampler)
    for run in expected:
        assert start(third) == run
        end(third, run)
    assert [trial.number for trial in trials_of(tmp_path / "b", sampler=sampler).closed()] == [0, 1, 2, 3]


def test_a_driver_that_was_killed_before_a_trial_had_all_settings_leaves_its_number_to_the_next(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    expected = start(trials_of(tmp_path / "a"))
    killed = trials_of(tmp_path / "b")
    study = killed._study("cls")
    study.sampler = optuna.samplers.TPESampler(seed=0)
    study.ask().suggest_float("optim.lr", 5e-4, 5e-2, log=True)
    study.enqueue_trial({"optim.lr": 0.5})  # it must not be handed out for another trial
    assert start(trials_of(tmp_path / "b")) == expected


@pytest.mark.parametrize("left", [None, b""])
def test_trials_without_their_journal_are_no_new_tuning(tmp_path, left):
    first = trials_of(tmp_path)
    save(first, start(first), (1, 0.25))
    (tmp_path / JOURNAL).unlink()
    if left is not None:
        (tmp_path / JOURNAL).write_bytes(left)
    with pytest.raises(UserError, match=r"optuna\.jsonl: is missing, and there are trials beside it; restore it, or"):
        trials_of(tmp_path)


def test_what_a_kill_leaves_in_the_journal_is_no_obstacle(tmp_path):
    first = trials_of(tmp_path)
    expected = [start(first) for _ in range(2)]
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b'{"op_code": 5, "work')  # the line that it wrote
    (tmp_path / f"{JOURNAL}.lock").symlink_to(JOURNAL)
    begin = time.monotonic()
    second = trials_of(tmp_path)
    assert [start(second) for _ in range(2)] == expected
    assert time.monotonic() - begin < 20, "it waits for the lock of the dead driver"


def test_a_tuning_that_is_refused_leaves_no_study(tmp_path):
    end(first := trials_of(tmp_path, trials=1), start(first))
    before = (tmp_path / JOURNAL).read_bytes()
    trials_of(tmp_path, trials=1, sampler="random")
    assert (tmp_path / JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    "body", [b"[1]\n", b"{}\n", b'{"op_code": 99, "worker_id": "a"}\n', b"\xff\n", b"[" * 10**5 + b"\n"]
)
def test_a_file_that_is_no_journal_is_one_line_and_stays(tmp_path, body):
    (tmp_path / JOURNAL).write_bytes(body)
    with pytest.raises(UserError, match=r"optuna\.jsonl: is no journal of Optuna"):
        trials_of(tmp_path)
    assert (tmp_path / JOURNAL).read_bytes() == body


def test_a_run_that_was_given_up_ends_its_trial_and_the_next_command_tries_it_again(tmp_path):
    trials = trials_of(tmp_path, trials=1)
    run = start(trials)
    trials.give_back([run], last=True)
    assert trials.left == 1 and start(trials) == run and trials.rows() == {"cls": []}
    trials.ended(run, None)
    assert trials.left == 0
    (trial,) = trials.rows()["cls"]
    assert (trial.status, trial.val_acc, best_trial([trial])) == ("failed", None, None)
    again = trials_of(tmp_path, trials=1)
    assert start(again) == run


def reported(trials, run, epochs, accuracy) -> int | None:
    """Report epochs with an accuracy until the run is pruned. The epoch of that."""
    return next((epoch for epoch in range(1, epochs + 1) if trials.epoch(run, row(epoch, accuracy))), None)


@pytest.mark.parametrize("pruner, stops", [("halving", {3, 9}), ("none", set())])
def test_low_trials_are_stopped_at_a_ninth_and_a_third_of_the_epochs(tmp_path, pruner, stops):
    """Trial n has the accuracy of 1 - n / 10, so that each is worse than those before it."""
    trials, stopped = trials_of(tmp_path, trials=6, pruner=pruner), set()
    for number in range(6):
        run, accuracy = start(trials), 1 - number / 10
        last = reported(trials, run, 27, accuracy)
        stopped |= {last} - {None}
        end(trials, run, "pruned" if last else "finished", accuracy, last or 27)
    assert stopped <= stops and bool(stopped) == bool(stops)
    states = [trial.state.name for trial in trials.studies["cls"].get_trials()]
    assert states[0] == "COMPLETE" and (set(states[1:]) == ({"PRUNED"} if stops else {"COMPLETE"}))
    assert trials.studies["cls"].best_trial.number == 0


@pytest.mark.parametrize("epochs, last", [(10, 3), (30, 9)])
def test_a_trial_is_not_stopped_after_a_third_of_the_epochs(tmp_path, epochs, last):
    """Each trial is the best one until the rung at a third of the epochs, then the lowest."""
    trials = trials_of(tmp_path, trials=8, base={"train.epochs": epochs})
    for number in range(8):
        run = start(trials)
        for epoch in range(1, epochs + 1):
            accuracy = 0.5 + number / 100 if epoch <= last else 0.5 - number / 100
            assert not trials.epoch(run, row(epoch, accuracy))
        end(trials, run, epochs=epochs)


def test_kills_change_no_decision_of_the_pruner(tmp_path):
    """Each of twelve trials tells three epochs, loses its driver, and tells them again: as an undisturbed tuning."""
    decisions: dict[str, Counter[int | None]] = {}
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        trials, stops = trials_of(tmp_path / name, trials=12), list[int | None]()
        for number in range(12):
            run, accuracy = start(trials), 0.5 + (7 * number % 12) / 100
            told = [trials.epoch(run, row(epoch, accuracy)) for epoch in (1, 2, 3)]
            if name == "killed":
                save(trials, run, *((epoch, accuracy) for epoch in (1, 2, 3)))
                trials = trials_of(tmp_path / name, trials=12)
                assert start(trials) == run and trials.epoch(run, row(3, accuracy)) == told[-1]
            last = 3 if told[-1] else next((e for e in range(4, 28) if trials.epoch(run, row(e, accuracy))), None)
            stops.append(last)
            end(trials, run, "pruned" if last else "finished", accuracy, last or 27)
        decisions[name] = stops
    assert decisions["killed"] == decisions["undisturbed"] and {3, None} <= set(decisions["killed"])


def test_more_trials_extend_a_tuning_and_the_best_is_kept(tmp_path):
    trials = trials_of(tmp_path, trials=2)
    for accuracy in (0.8, 0.6):
        end(trials, start(trials), accuracy=accuracy)
    assert trials.next() == []
    more = trials_of(tmp_path, trials=3)
    end(more, start(more), "diverged", None)
    rows = more.rows()["cls"]
    assert [(t.status, t.val_acc) for t in rows] == [("finished", 0.8), ("finished", 0.6), ("diverged", None)]
    tuned = tuned_variant(more.variants["cls"], rows)
    assert (tuned.trial, tuned.val_acc, tuned.epochs) == (0, 0.8, 3 * 27)
    with pytest.raises(UserError, match="--trials: 2 is not allowed: there are 3 trials of a variant already"):
        trials_of(tmp_path, trials=2)


def test_a_trial_of_several_seeds_has_their_mean_and_trains_none_of_them_twice(tmp_path):
    first = trials_of(tmp_path, trials=2, seeds=3)
    for accuracy in (0.5, 0.9):
        end(first, start(first), accuracy=accuracy)
    begun = start(first)
    assert first.rows() == {"cls": []}
    second = trials_of(tmp_path, trials=2, seeds=3)
    assert start(second) == begun
    end(second, begun, accuracy=0.1)
    (trial,) = second.rows()["cls"]
    assert (trial.status, trial.epochs, trial.val_acc) == ("finished", 81, pytest.approx(0.5))
    assert trial.accuracies == {1_000_000: 0.5, 1_010_000: 0.9, 1_020_000: 0.1}
    assert second.studies["cls"].best_value == pytest.approx(0.5)
    after = start(second)
    assert after.seed == 1_000_001 and after.config.optim != begun.config.optim and second.left == 0
    with pytest.raises(UserError, match="seed 1010000 was used for tuning"):
        plan = make_plan(parse_study({**STUDY, "seeds": [1_010_000]}, "mine"))
        plan = plan.model_copy(update={"runs": [run for run in plan.runs if run.variant == "cls"]})
        apply_tuned(plan, make_tuned(second.plan, second.rows()))


@pytest.mark.parametrize("status", ["diverged", "failed"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_seed_without_an_accuracy_leaves_its_trial_without_one_and_drops_the_seeds_after_it(tmp_path, place, status):
    trials = trials_of(tmp_path, trials=1, seeds=3)
    names = dropped(trials)
    for _ in range(place):
        end(trials, start(trials))
    run = start(trials)
    trials.epoch(run, row(1, 0.4))
    if status == "failed":
        trials.ended(run, None)
    else:
        end(trials, run, status, None, 1)
    assert trials.left == 0 and len(names) == 2 - place
    (trial,) = trials.rows()["cls"]
    assert (trial.status, trial.val_acc, best_trial([trial])) == (status, None, None)


def test_only_the_first_seed_of_a_trial_is_stopped_early(tmp_path):
    trials = trials_of(tmp_path, trials=2, seeds=2)
    names = dropped(trials)
    for accuracy in (0.9, 0.1):  # the second seed of the best trial is lower than the other trial
        best = start(trials)
        assert reported(trials, best, 27, accuracy) is None
        end(trials, best, accuracy=accuracy)
    low = start(trials)
    assert reported(trials, low, 3, 0.4) == 3
    end(trials, low, "pruned", 0.4, 3)
    assert trials.left == 0 and len(names) == 1
    assert [(t.status, t.val_acc, t.epochs) for t in trials.rows()["cls"]] == [
        ("finished", 0.5, 54),
        ("pruned", 0.4, 3),
    ]
