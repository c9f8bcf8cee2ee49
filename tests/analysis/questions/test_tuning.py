"""The report of a tuned study: it says what was tuned and at what cost, and its figures show the trials of the plan."""

import json

import pandas as pd
import pytest
import study_file
from synthetic import results_of, state_plan, write_study

from analysis.findings import analyze
from analysis.questions.tuning import question, study_tuning
from analysis.report import study_document, summary
from analysis.runs.exported import export
from analysis.runs.held_fixed import plan_changes
from analysis.runs.read import read
from experiments.config import RunConfig
from experiments.runs import record

SPACE = {
    "optim.lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "optim.name": {"choices": ["adamw", "sgd"], "log": False},
}
BEST = {"none": 0.0995, "sinusoidal": 0.01, "learned-1d": 0.003, "learned-2d": 0.001}


def tuned_plan() -> dict:
    """The `tuned` part of a plan: of the 6 trials of a variant, 0 diverged, 1 was stopped early, and 3 is the best."""
    trials, variants = [], {}
    for place, (variant, rate) in enumerate(BEST.items()):
        for n in range(6):
            status, epochs = {0: "diverged", 1: "pruned"}.get(n, "finished"), 2 if n == 1 else 8
            trial = {"variant": variant, "trial": n, "seed": 1_000_000 + n, "status": status, "epochs": epochs}
            values = {} if n == 0 else {"val/acc": (0.9 if n == 3 else 0.5) + n / 100 + place / 1000, "val/loss": 1.0}
            settings = {"optim.lr": rate if n == 3 else 10 ** (-4 + n / 2), "optim.name": "adamw"}
            trials.append({**trial, **values, "settings": settings})
        chosen = {"levels": {"model.pos_embed": variant}, "settings": {"optim.lr": rate, "optim.name": "adamw"}}
        cost = {"trial": 3, "val/acc": 0.93 + place / 1000, "epochs": 42}
        variants[variant] = {**chosen, **cost}
    search = {"sampler": "tpe", "pruner": "halving", "budget": 6, "space": SPACE}
    head = {"schema": 1, "study": "position", "objective": "val/acc", "base": {}, "code": {}}
    return {**head, **search, "variants": variants, "trials": trials}


def levels(variant: str) -> dict:
    return {"model.pos_embed": variant, "optim.lr": BEST[variant]}


@pytest.fixture
def folder(tmp_path):
    """A tuned study: the records have the learning rates that were chosen."""
    folder = write_study(tmp_path, seeds=3, levels=levels, tuned=tuned_plan())
    plan = study_file.read_study(folder)
    for entry in plan["runs"]:
        del entry["levels"]["optim.lr"]  # a tuned setting, and not a level of the variant
    study_file.write_study(folder, {key: value for key, value in plan.items() if key != "schema"})
    return folder


def change_plan(folder, change):
    """Change the plan of the tuning."""
    plan = study_file.read_study(folder)
    change(plan["tuned"])
    study_file.write_study(folder, {key: value for key, value in plan.items() if key != "schema"})


def test_the_report_of_a_tuned_study_has_its_trials_and_no_warning_that_settings_differ(folder):
    findings = analyze(read(str(folder)))
    document = study_document(findings)
    (text,) = next(part for part in document.sections if part.id == "tuning").paragraphs
    assert f"{len(BEST)} of {6 * len(BEST)} trials" in text and "seeds 1000000 to 1000005" in text  # stopped early
    assert not [warning for warning in document.warnings if "not held fixed" in warning.line]
    assert "Each variant was tuned by 6 trials." in document.summary
    trials = document.frames["tuning-trials"]
    assert len(trials) == 24 and trials["val/acc"].isna().sum() == 4


def test_the_table_shows_the_settings_of_each_variant_and_counts_its_trials(folder):
    table = question(analyze(read(str(folder)))).items[0]
    labels = [column.label for column in table.shown().columns]
    assert labels[1:4] == ["learning rate", "optim.name", "validation accuracy, %"]
    data = table.data
    assert dict(zip(data["variant"], data["optim.lr"])) == BEST
    assert data[["finished", "pruned", "diverged", "epochs"]].to_numpy().tolist() == [[4, 1, 1, 42]] * len(BEST)


def test_a_tuning_with_several_seeds_per_trial_says_so_and_names_all_its_seeds(folder):
    two_seeds(folder, 0.02, {})
    section = question(analyze(read(str(folder))))
    (text,) = section.paragraphs
    assert "mean over 2 seeds" in text and "seeds 1000000 to 1010005" in text
    assert "of the trial that was chosen, mean over 2 seeds" in [column.note for column in section.items[0].columns]


def test_the_figure_shows_every_trial(folder):
    findings = analyze(read(str(folder)))
    (trials,) = question(findings).items[1].figure.axes
    tuning, drawn = study_tuning(findings.study), {line.get_gid(): line for line in trials.lines}
    assert trials.get_xscale() == "log" and len([tick for tick in trials.get_xticklabels() if tick.get_text()]) > 2
    for index, variant in enumerate(BEST):
        of_variant = tuning.trials[tuning.trials["variant"] == variant]
        finished = of_variant[of_variant["status"] == "finished"]
        assert list(drawn[f"v{index}-finished-0"].get_xdata()) == list(finished["optim.lr"])
        assert list(drawn[f"v{index}-finished-0"].get_ydata()) == pytest.approx(list(finished["val/acc"] * 100))
        assert len(drawn[f"v{index}-stopped-0"].get_xdata()) == 1  # a diverged trial has no accuracy
        assert list(drawn[f"v{index}-chosen-0"].get_xdata()) == [BEST[variant]]


def test_a_choice_at_the_end_of_its_range_and_another_base_are_warned_of(folder):
    """Of the base, `eval` changes no training."""
    change_plan(folder, lambda tuned: tuned.update(base={"train.epochs": 3, "eval.img_sizes": "14,42"}))
    edge, luck, base = question(analyze(read(str(folder)))).warnings
    assert luck.line == "Tuning: 4 settings won for 4 variants; a trial has one seed, so a choice may be luck."
    assert edge.line == "Tuning: the learning rate chosen for “none” is at or near an end of its range."
    assert edge.detail.startswith("Tried: 0.0001 to 0.1 (log scale).")
    assert base.detail == f"train.epochs 3 instead of {RunConfig().train.epochs}."


def test_an_export_which_names_no_place_of_the_data_has_no_changed_tuning(folder, tmp_path):
    change_plan(folder, lambda tuned: tuned.update(base={"data.root": "/mine"}))
    state_plan(folder)
    exported = read(str(export(read(str(folder)), tmp_path / "exported")))
    assert plan_changes(read(str(folder))) == plan_changes(exported) == {}
    assert "data.root" not in exported.plan.tuned.base


def two_seeds(folder, between: float, seconds: dict[str, float]) -> None:
    """Give each trial two seeds with accuracies this far apart, and trial 5 of some variants another mean."""

    def change(tuned):
        tuned["seeds_per_trial"] = 2
        for trial in tuned["trials"]:
            if trial["trial"] == 5 and trial["variant"] in seconds:
                trial["val/acc"] = seconds[trial["variant"]]
            if trial["status"] == "finished":
                pair = trial["val/acc"] - between / 2, trial["val/acc"] + between / 2
                trial["accuracies"] = dict(zip((str(trial["seed"]), str(trial["seed"] + 10_000)), pair))

    change_plan(folder, change)


def test_with_two_seeds_a_trial_their_standard_deviation_stands_beside_the_number_of_winners(folder):
    """Seeds 0.02 apart: their standard deviation is 0.02 / sqrt(2), 1.41 points."""
    two_seeds(folder, 0.02, {"none": 0.91, "sinusoidal": 0.9})
    section = question(analyze(read(str(folder))))
    leads = section.items[0].data["lead"]
    assert leads.tolist() == pytest.approx([0.02, 0.031, 0.932 - 0.552, 0.933 - 0.553])
    (warning,) = [warning for warning in section.warnings if "won for" in warning.line]
    assert warning.line == "Tuning: 4 settings won for 4 variants."
    assert warning.detail == (
        "The standard deviation between the seeds of a trial is 1.41 points; a trial is the mean over 2."
    )
    chosen = "Tuning chose 4 of 7 different settings for 4 variants, each from 6 trials of 2 seeds and 4 epochs a seed"
    assert chosen in section.paragraphs[0]


def test_a_trial_with_the_settings_of_the_winner_is_no_second(folder):
    def change(tuned):
        for trial in tuned["trials"]:
            if trial["trial"] == 5 and trial["variant"] == "none":
                trial.update({"val/acc": 0.92, "settings": {"optim.lr": BEST["none"], "optim.name": "adamw"}})

    change_plan(folder, change)
    assert study_tuning(read(str(folder))).leads["none"] == pytest.approx(0.93 - 0.54)


def test_an_export_holds_the_tuning(folder, tmp_path):
    study = read(str(folder))
    ours, theirs = (study_tuning(own) for own in (study, read(str(export(study, tmp_path / "exported")))))
    assert ours.plan == theirs.plan
    pd.testing.assert_frame_equal(ours.trials, theirs.trials)


def test_trials_are_never_pooled_with_the_runs(folder):
    """Trials lie beside the runs, in a folder of their own, and change no number of the report."""
    before = analyze(read(str(folder)))
    run = next(path.parent for path in folder.glob(f"*/{record.SUMMARY}"))
    target = folder / "tuning" / "none-s1000000-0"
    target.mkdir(parents=True)
    for path in run.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    after = analyze(read(str(folder)))
    pd.testing.assert_frame_equal(before.study.runs, after.study.runs)
    assert json.dumps(before.means.values) == json.dumps(after.means.values)


def test_a_study_that_was_not_tuned_says_nothing_of_it(tmp_path):
    findings = results_of(tmp_path, seeds=2)
    assert question(findings) is None and "tuned" not in summary(findings)
