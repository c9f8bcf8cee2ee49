"""Studies inferred from runs without a plan: factors, names of variants, copies, and the tables that every source
gives.
"""

from dataclasses import replace

import pandas as pd
import pytest
from analysis.runs.inferred import infer
from synthetic import write_study

import analysis
from analysis.asked import Asked
from analysis.questions.provenance import digest
from analysis.runs import wandb_project
from analysis.runs.folder import read_folder
from analysis.runs.read import read
from analysis.runs.runs import factor_levels
from analysis.runs.settings import PLACES
from analysis.runs.source_run import SourceRun
from experiments.config import SETTINGS
from experiments.errors import UserError
from experiments.metric import METRICS
from experiments.study import STUDY


def run(name, seed, depth=1, status="finished", **model):
    config = {"seed": seed, "model": {"depth": depth, **model}, "data": {"root": name}}
    return SourceRun(name, status, config, "", {"test/acc": 0.5})


def inferred(*runs, **given):
    return infer("wandb:x", runs, Asked.of(**given))


def test_factors_are_what_differs_and_what_moves_together_is_one():
    runs = [run(f"r{depth}{seed}", seed, depth, width=8 * depth, act="gelu") for depth in (1, 2) for seed in (0, 1)]
    study = inferred(*runs)
    assert study.factors == {"model.depth+model.width": ["1, 8", "2, 16"]} and study.variants == ["1, 8", "2, 16"]
    assert study.runs["run"].tolist() == ["r10", "r11", "r20", "r21"]
    assert study.base == {"model.act": "gelu"} and set(PLACES) & set(study.base) == set()
    assert inferred(*runs, baseline="2, 16").variants == ["2, 16", "1, 8"]  # the baseline first
    with pytest.raises(UserError, match="baseline: '3' is not among the variants; the variants: 1, 8; 2, 16"):
        inferred(*runs, baseline="3")


def test_variants_of_a_grid_are_named_by_their_levels():
    study = inferred(*(run(f"{depth}{act}", 0, depth, act=act) for depth in (1, 2) for act in ("gelu", "relu")))
    assert study.variants == ["depth=1, act=gelu", "depth=1, act=relu", "depth=2, act=gelu", "depth=2, act=relu"]


def test_a_setting_that_is_named_like_a_column_of_ours_keeps_its_values():
    """The records say 4 epochs of each run, the settings of another program 3 and 5."""
    study = inferred(
        *(
            SourceRun(f"r{n}", "finished", {"epochs": n, "lr": 0.1, "seed": 0}, "", {"test/acc": 0.5, "epochs": 4})
            for n in (3, 5)
        )
    )
    assert study.factors == {"config.epochs": ["3", "5"]} and study.variants == ["3", "5"]
    assert factor_levels(study.runs, "config.epochs").tolist() == ["3", "5"] and set(study.runs["epochs"]) == {4}


def test_a_source_is_a_function_that_gives_runs(monkeypatch):
    runs = [SourceRun("a", "finished", {"seed": 0, "lr": 1}, "", {"val/acc": 0.5}, study="theirs")]
    monkeypatch.setattr(wandb_project, "find_runs", lambda source: runs if source == "wandb:x/y" else [])
    study = read("wandb:x/y")
    assert (study.name, study.metric, study.variants) == ("theirs", "val/acc", ["all runs"])  # the only one measured
    assert study.margin == 0.01 and "the margin is the default" in study.plan.notes[0]
    with pytest.raises(UserError, match="wandb:z: holds no runs"):
        read("wandb:z")
    loss = read("wandb:x/y", metric="val/loss")  # the default margin is for accuracies
    assert loss.margin is None and "val/loss, and no margin is stated for it" in loss.plan.notes[0]


def test_two_copies_of_one_run_count_once():
    study = inferred(run("broken", 0, status="incomplete"), run("whole", 0), run("other", 1, depth=2))
    assert sorted(study.runs["run"]) == ["other", "whole"] and list(study.troubles) == ["broken"]


def test_a_group_of_runs_with_different_settings_is_several_variants():
    """Groups of another program: exp-a holds two learning rates, exp-b holds one."""
    given = [("exp-a", 0.1, 0, 0.9), ("exp-a", 0.01, 0, 0.5), ("exp-a", 0.01, 1, 0.5), ("exp-b", 0.1, 0, 0.7)]
    runs = [
        SourceRun(f"r{i}", "finished", {"lr": lr, "seed": seed}, group, {"test/acc": value})
        for i, (group, lr, seed, value) in enumerate(given)
    ]
    study = inferred(*runs, SourceRun("r4", "incomplete", {"lr": 0.01, "seed": 1}, "exp-a"))
    values = {variant: runs["test/acc"].tolist() for variant, runs in study.runs.groupby("variant")}
    assert values == {"exp-a: 0.1": [0.9], "exp-a: 0.01": [0.5, 0.5], "exp-b: 0.1": [0.7]}
    assert study.troubles == {"r4": "is another copy of r2 (exp-a: 0.01, seed 1), so it is not used"}
    assert inferred(*runs[1:]).variants == ["exp-a", "exp-b"]


def test_runs_without_a_seed_that_are_otherwise_alike_are_refused():
    alike = [SourceRun(name, "finished", {"model": {"depth": 2}}, "", {"test/acc": 0.5}) for name in ("a", "b")]
    with pytest.raises(UserError, match="wandb:x: b: has no setting `seed`, and a has the same settings"):
        inferred(*alike)
    apart = [SourceRun(str(depth), "finished", {"depth": depth}, "", {"test/acc": 0.5}) for depth in (1, 2)]
    assert inferred(*apart).variants == ["1", "2"]
    with pytest.raises(UserError, match="wandb:x: r: seed: 'a' is not allowed"):
        inferred(SourceRun("r", "finished", {"seed": "a"}))


def test_a_metric_that_only_later_epochs_have_is_kept():
    rows = [{"epoch": 1.0, "train/loss": 2.0}, {"epoch": 2.0, "train/loss": 1.0, "val/acc": 0.5}]
    curves = inferred(SourceRun("a", "finished", {"seed": 0}, "v", {"test/acc": 0.5}, rows)).curves
    assert curves["val/acc"].dropna().tolist() == [0.5]


def test_every_source_gives_the_same_columns(tmp_path):
    imported = inferred(run("a", 0), run("b", 0, depth=2))
    folder = read_folder(write_study(tmp_path, seeds=2))
    settings = SETTINGS.keys() - {"seed"}
    core = [column for column in folder.runs.columns if column not in settings]
    assert core == [column for column in imported.runs.columns if column not in settings] and set(METRICS) < set(core)


def test_names_of_ours_may_have_another_meaning_in_the_runs_of_another_program():
    theirs = SourceRun("a", "finished", {"seed": 0}, "", {"cost": 0.5, "data": "cifar", "test/acc": 0.9})
    study = inferred(theirs, run("b", 1))
    assert study.runs["test/acc"].max() == 0.9 and study.runs["params"].isna().all()


def test_the_digest_of_an_imported_study_changes_with_the_status_and_the_metric_of_its_runs():
    before, after = (inferred(run("a", 0), run("b", 1, status=status)) for status in ("incomplete", "finished"))
    other = replace(after, runs=after.runs.assign(**{"test/acc": 0.6}))
    assert len({digest(before), digest(after), digest(other)}) == 3 and digest(before) == digest(before)


def test_run_folders_without_a_plan(tmp_path):
    folder = write_study(
        tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, statuses={("none", 1): "incomplete"}
    )
    planned = read(str(folder))
    (folder / STUDY).unlink()
    study = read(str(folder), baseline="none")
    assert study.factors == {"model.pos_embed": ["none", "learned-1d"]} and study.variants == planned.variants
    order = [planned.runs.sort_values(["variant", "seed"]), study.runs.sort_values(["variant", "seed"])]
    for column in ("run", "status", "test/acc", "params", "digest"):
        assert repr(order[0][column].tolist()) == repr(order[1][column].tolist())


def test_levels_that_hold_numbers_are_ordered_as_numbers_in_tables_and_effects():
    """With the baseline first in tables; methods stay in the order of their names."""
    cells = [(method, rank) for method in ("b", "a") for rank in (16, 1, 2)]
    rows = [(*cell, seed, cell[1] + seed**at) for at, cell in enumerate(cells) for seed in range(3)]
    frame = pd.DataFrame(rows, columns=["method", "rank", "seed", "score"])
    findings = analysis.compare(frame, "score", ["method", "rank"], baseline="method=a, rank=2").findings
    order = [("a", "2"), ("a", "1"), ("a", "16"), ("b", "1"), ("b", "2"), ("b", "16")]
    assert [tuple(row.levels.values()) for row in findings.rows] == order
    assert findings.factors.model.levels == {"method": ("a", "b"), "rank": ("1", "2", "16")}
    alone = analysis.compare(frame[frame["method"] == "a"], "score", "rank")
    assert list(alone.table.index) == ["1", "2", "16"]
