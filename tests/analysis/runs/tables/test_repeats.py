"""Rows that are parts of a run are no runs: the advice makes runs of them, and `unpaired` is refused for them."""

import numpy as np
import pandas as pd
import pytest
from commands import refusal

import analysis


def parts(part="fold", names=range(3), seeds=(0, 1, 2), **columns):
    """A row for each method, seed and part of a run; the mean over the parts of method a is the seed."""
    names = list(names)
    rows = [
        {"m": m, "seed": seed, part: name, "acc": 10 * (m == "b") + seed + at - (len(names) - 1) / 2}
        for m in "ab"
        for seed in seeds
        for at, name in enumerate(names)
    ]
    return pd.DataFrame(rows).assign(**columns)


def refused(frame, **asked):
    return refusal(analysis.compare, frame, "acc", "m", **asked)


def notes(frame, **asked):
    return analysis.compare(frame, "acc", "m", **asked).findings.study.plan.notes


@pytest.mark.parametrize(
    ("part", "names", "ways"),
    [
        ("fold", range(3), ["the mean over fold of each run: mean_over='fold'", "where='fold=0'"]),
        ("episode", range(5), ["mean_over='episode'"]),
        ("cv_split", ["split_1", "split_2"], ["mean_over='cv_split'"]),
        ("epoch", range(3), ["the last row of each run: last='epoch'", "mean_over='epoch'"]),
        ("global_step", [100, 200], ["last='global_step'"]),
        (
            "metric",
            ["acc", "loss"],
            ["for one of metric (acc, loss): where='metric=acc'", "dataset='metric'", "factor"],
        ),
        ("task", ["arc", "boolq"], ["where='task=arc'", "if task is a dataset: dataset='task'", "mean_over='task'"]),
        ("fold", ["left", "right"], ["where='fold=left'", "mean_over='fold'", "factor"]),
    ],
)
def test_the_advice_on_rows_of_one_run(part, names, ways):
    said = refused(parts(part, names))
    assert said.startswith("the table: rows 1 and 2 both have m a, seed 0; ") and "unpaired" not in said
    places = [said.index(way) for way in ways]
    assert places == sorted(places)


def test_a_time_or_an_id_is_no_part():
    """Its values do not recur from run to run."""
    frame = parts("fold", range(2))
    frame["seconds"], frame["id"] = np.linspace(1, 2, 12), [f"r{i}x" for i in range(12)]
    assert "fold" in refused(frame) and "seconds" not in refused(frame) and "id" not in refused(frame)
    assert "name what differs (seconds, id) as a factor" in refused(frame.drop(columns="fold"))


def test_the_mean_over_the_parts_of_a_run_is_its_value():
    results = analysis.compare(parts(), "acc", "m", mean_over="fold")
    assert results.findings.means.values == {"a": {0: 0, 1: 1, 2: 2}, "b": {0: 10, 1: 11, 2: 12}}
    assert results.findings.study.plan.notes == [] and len(results.runs) == 6


def test_a_run_that_lacks_a_part_or_has_a_failed_one_has_failed():
    failed = parts(State="finished")
    failed.loc[4, "State"] = "crashed"
    one = analysis.compare(failed, "acc", "m", mean_over="fold", failed="State=crashed")
    assert (
        one.findings.conduct.counts.loc["a", "diverged"] == 1
        and one.findings.comparisons.versus["b"].verdict == "not tested"
    )
    lacking = analysis.compare(parts().drop(index=4), "acc", "m", mean_over="fold")
    assert lacking.findings.conduct.counts.loc["a", "diverged"] == 1
    assert lacking.findings.study.plan.notes[1:] == ["Runs that lack a value of fold count as failed: m a, seed 1."]


def test_each_dataset_has_its_own_parts():
    both = pd.concat([parts().assign(d="x"), parts(names=range(5)).assign(d="y").eval("acc = acc + 1")])
    results = analysis.compare(both, "acc", "m", dataset="d", mean_over="fold")
    assert all(study.findings.comparisons.versus["b"].diff.value == 10 for study in results.studies.values())


@pytest.mark.parametrize("names", [["acc", "loss"], ["val_accuracy", "val_error"], ["AUROC", "FID"]])
def test_metrics_of_different_directions_have_no_mean(names):
    assert f"holds {names[1]} and {names[0]}, which have no mean" in refused(parts("metric", names), mean_over="metric")


def test_the_last_row_of_each_run_whatever_its_number():
    """Of early stopping: keeping one number would keep only the runs that reached it."""
    frame = parts("epoch", range(5)).drop(index=[3, 4, 14])
    results = analysis.compare(frame, "acc", "m", last="epoch")
    assert results.findings.means.values["a"] == {0: 0, 1: 3, 2: 3}
    assert results.findings.study.plan.notes == [
        "Runs end at a different epoch: 2 (1 runs), 3 (1 runs), 4 (4 runs). The lowest is of m a, seed 0. "
        "A run that crashed has no result at its last row: name it by --failed."
    ]


def test_a_run_with_a_row_that_is_marked_as_failed_stays_failed():
    frame = parts("epoch", range(3), ok="yes")
    frame.loc[1, "ok"] = "no"
    assert (
        analysis.compare(frame, "acc", "m", last="epoch", failed="ok=no").findings.conduct.counts.loc["a", "diverged"]
        == 1
    )


def test_the_last_epoch_of_each_fold_and_their_mean():
    frame = parts("epoch", range(3)).merge(pd.DataFrame({"fold": [0, 1]}), how="cross")
    results = analysis.compare(frame, "acc", "m", last="epoch", mean_over="fold")
    assert results.findings.means.values["a"] == {0: 1, 1: 2, 2: 3}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"last": "epcoh"}, "has no column 'epcoh' (the step); did you mean 'epoch'? its columns: m, seed, epoch, acc"),
        ({"mean_over": "fold"}, "has no column 'fold' (the parts of a run); its columns"),
        ({"last": "epoch", "variance": "unpaired"}, "last: without seeds, it needs a column run"),
        ({"last": "epoch", "seed": "epoch"}, "are different columns"),
    ],
)
def test_a_column_of_parts_that_is_not_there(asked, said):
    assert said in refused(parts("epoch"), **asked)


def test_without_seeds_a_column_of_runs_tells_them_apart():
    frame = parts("episode").rename(columns={"seed": "run"})
    assert "several rows have m a, run 0, so rows are no runs" in refused(frame, variance="unpaired")
    results = analysis.compare(frame, "acc", "m", variance="unpaired", mean_over="episode")
    assert sorted(results.findings.means.values["a"].values()) == [0, 1, 2] and results.findings.study.plan.notes == []


@pytest.mark.parametrize("seed", ["seed", "Seed", "params_seed", "random_state", "SEED", "config/seed"])
def test_unpaired_is_refused_where_seeds_repeat_within_a_variant(seed):
    frame = parts().rename(columns={"seed": seed})
    said = refused(frame, variance="unpaired")
    assert f"variance: unpaired is not allowed: several rows have m a, {seed} 0, so rows are no runs" in said
    assert f"name {seed} as the seed instead, and for the mean over fold of each run: mean_over='fold'" in said
    one = frame[frame["fold"] == 0]
    assert analysis.compare(one, "acc", "m", variance="unpaired").findings.comparisons.versus["b"].n == 3
    assert len(analysis.compare(frame, "acc", ["m", "fold"], variance="unpaired").findings.study.variants) == 6


def test_a_constant_seed_is_noted():
    frame = parts(seeds=(42,)).drop(columns="fold")
    assert "seed is 42 in every row, so it tells no runs apart." in notes(frame, variance="unpaired")


@pytest.mark.parametrize("part", ["episode", "fold", "t", "subject_no", "trial_index"])
def test_a_column_that_grows_or_is_the_same_in_every_variant_is_noted(part):
    frame = parts(part, seeds=(0,)).drop(columns="seed")
    said = f"If rows of different {part} are parts of one run, they are no runs: intervals are too narrow."
    assert said in notes(frame, variance="unpaired")
    assert said in notes(frame.sample(frac=1, random_state=1), variance="unpaired")


def test_rows_that_repeat_and_texts_that_are_pooled_are_noted():
    frame = parts(seeds=(0,)).drop(columns=["seed", "fold"]).assign(host=["x", "y", "y"] * 2)
    said = notes(pd.concat([frame, frame]), variance="unpaired")
    assert said == [
        "The runs of a variant differ in host (x, y), which is no factor.",
        "6 rows repeat another one in all columns: check that they are no copies.",
    ]


@pytest.mark.parametrize(
    ("name", "held"), [("lr", [0.1, 0.1, 0.3]), ("seconds", [0.5, 0.5, 0.7]), ("gpu", ["x", "x", "y"])]
)
def test_a_setting_that_runs_without_seeds_share_is_noted(name, held):
    frame = parts(seeds=(0,)).drop(columns=["seed", "fold"]).assign(**{name: [*held, *held[::-1]]})
    listed = ", ".join(map(str, dict.fromkeys(held)))
    assert f"The runs of a variant differ in {name} ({listed}), which is no factor." in notes(
        frame, variance="unpaired"
    )


def test_a_condition_on_a_step_names_the_last_rows():
    frame = parts("epoch", range(5)).drop(index=[3, 4, 14])
    said = notes(frame, where="epoch=4")
    assert any(
        "Runs that end at another epoch are left out; --last epoch has the last row of each." in note for note in said
    )


@pytest.mark.parametrize(
    ("texts", "seeds"),
    [
        (["seed_0", "seed_1", "seed_10"], [0, 1, 10]),
        (["run 3", "run 1", "run 2"], [3, 1, 2]),
        (["1.0", "2", "3.0"], [1, 2, 3]),
        (["s01", "s02", "s3"], [1, 2, 3]),
        (["blue", "red", "green"], [0, 1, 2]),
        (["3f2a-x", "77bc-y", "no"], [0, 1, 2]),
    ],
)
def test_seeds_that_are_texts(texts, seeds):
    frame = parts(names=[0]).assign(seed=texts * 2)
    assert list(analysis.compare(frame, "acc", "m").findings.means.values["a"]) == sorted(seeds)


@pytest.mark.parametrize("texts", [["blue", "red", "green", "blue", "red", "black"], ["x", "", "y"] * 2])
def test_texts_that_are_no_seeds(texts):
    assert "seed: " in refused(parts(names=[0]).assign(seed=texts)) and "is not a whole number" in refused(
        parts(names=[0]).assign(seed=texts)
    )


def test_parts_that_are_named_as_seeds_are_noted():
    frame = parts(seeds=(0,)).drop(columns="seed")
    (note,) = notes(frame, seed="fold")
    assert note.startswith("Differences are over the common values of fold. Folds share training data")
