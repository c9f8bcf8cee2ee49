"""The report of a tuned study: it says what was tuned and at what cost, and its figures show the trials of the plan."""

import pandas as pd
import pytest
import study_file
from synthetic import results_of, write_study

from analysis.findings import analyze
from analysis.questions.tuning import question, trials_of
from analysis.report import study_document, summary
from analysis.runs.exported import export
from analysis.runs.held_fixed import plan_changes
from analysis.runs.read import read
from experiments.runs import record

SPACE = {
    "optim.lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "optim.name": {"choices": ["adamw", "sgd"], "log": False},
}
BEST = {"none": 0.05, "sinusoidal": 0.01, "learned-1d": 0.003, "learned-2d": 0.001}


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
    folder = write_study(tmp_path, seeds=3, levels=levels, tuning=tuned_plan())
    plan = study_file.read_study(folder)
    for entry in plan["runs"]:
        del entry["levels"]["optim.lr"]  # a tuned setting, and not a level of the variant
    study_file.write_study(folder, {key: value for key, value in plan.items() if key != "schema"})
    return folder


def change_plan(folder, change):
    """Change the plan of the tuning."""
    plan = study_file.read_study(folder)
    change(plan["tuning"])
    study_file.write_study(folder, {key: value for key, value in plan.items() if key != "schema"})


def test_the_report_of_a_tuned_study_has_its_trials_and_no_warning_that_settings_differ(folder):
    findings = analyze(read(str(folder)))
    document = study_document(findings)
    (text,) = next(part for part in document.sections if part.id == "tuning").paragraphs
    assert "6 trials of 1 seed, 4 of them stopped early" in text and "seeds 1000000 to 1000005" in text
    assert not [warning for warning in document.warnings if "not held fixed" in warning.line]
    assert (
        "Tuned for each variant in 6 trials: optim.lr and optim.name; intervals do not cover the luck of this choice."
        in document.summary
    )
    trials = document.frames["tuning-trials"]
    assert len(trials) == 24 and trials["val/acc"].isna().sum() == 4


def test_the_table_shows_the_settings_of_each_variant_and_counts_its_trials(folder):
    table = question(analyze(read(str(folder)))).items[0]
    labels = [column.label for column in table.shown().columns]
    assert labels[1:4] == ["learning rate", "optim.name", "validation accuracy, %"]
    data = table.data
    assert dict(zip(data["variant"], data["optim.lr"])) == BEST
    assert data[["finished", "pruned", "diverged", "epochs"]].to_numpy().tolist() == [[4, 1, 1, 42]] * len(BEST)


def test_the_figure_shows_every_trial(folder):
    findings = analyze(read(str(folder)))
    (trials,) = question(findings).items[1].figure.axes
    assert "At an end of what was tried: “none”." in question(findings).items[1].caption  # others: to 0.032
    tuning, drawn = trials_of(findings.study.plan.tuning), {marks.get_gid(): marks for marks in trials.collections}
    assert trials.get_xscale() == "log" and len([tick for tick in trials.get_xticklabels() if tick.get_text()]) > 2
    for index, variant in enumerate(BEST):
        of_variant = tuning[tuning["variant"] == variant]
        measured = of_variant[of_variant["status"] != "diverged"]  # a diverged trial has no accuracy
        expected = [*zip(measured["optim.lr"], 100 * measured["val/acc"])]
        marks, pruned = drawn[f"v{index}-trials-0"], [status == "pruned" for status in measured["status"]]
        *places, chosen = marks.get_offsets().tolist()
        assert places == [pytest.approx(place) for place in expected]
        assert chosen == pytest.approx((BEST[variant], 93 + index / 10))
        assert [colour[3] == 0 for colour in marks.get_facecolors()] == [*pruned, False] and sum(pruned) == 1
        assert (marks.get_sizes()[:-1] < marks.get_sizes()[-1]).all()


def test_an_export_which_names_no_place_of_the_data_has_no_changed_tuning(folder, tmp_path):
    change_plan(folder, lambda tuned: tuned.update(base={"data.root": "/mine"}))
    exported = read(str(export(read(str(folder)), tmp_path / "exported")))
    assert plan_changes(read(str(folder))) == plan_changes(exported) == {}
    assert "data.root" not in exported.plan.tuning.base


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
    assert before.means.values.equals(after.means.values)


def test_a_study_that_was_not_tuned_says_nothing_of_it(tmp_path):
    findings = results_of(tmp_path, seeds=2)
    assert question(findings) is None and "tuned" not in summary(findings)
