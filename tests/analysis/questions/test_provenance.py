"""Where numbers come from, and the commands that make them again."""

from dataclasses import replace

from synthetic import write_study

from analysis.findings import analyze
from analysis.questions.provenance import commands, question
from analysis.runs.read import read
from analysis.write.document import Facts

TWO = {"none": 0.7, "cpe": 0.9}


def study_of(tmp_path, **options):
    return read(str(write_study(tmp_path, accuracy=TWO, **options)))


def facts_of(study):
    origin, settings = (item for item in question(analyze(study)).items if isinstance(item, Facts))
    return dict(origin.facts), dict(settings.facts)


def test_each_commit_has_its_runs_and_the_settings_are_those_of_all_runs(tmp_path):
    study = study_of(tmp_path, seeds=4)
    seed = study.runs["seed"]
    commits = {
        "commit": seed.map({0: "a", 1: "a", 2: "a", 3: None}),
        "dirty": seed.map({0: False, 1: False, 2: True, 3: None}),
    }
    facts, settings = facts_of(replace(study, runs=study.runs.assign(**commits)))
    assert facts["Commit"].split("; ") == [
        "a (4 runs, seeds 0 and 1)",
        "a (uncommitted changes, 2 runs, seeds 2)",
        "not in a git checkout (2 runs, seeds 3)",
    ]
    assert facts["Date"] == "2025-01-01T00:00:00+00:00 to 2025-01-01T00:00:04+00:00" and "Plug-in source" not in facts
    assert not settings.keys() & {"model.pos_embed", "seed", "data.root"}  # those of the preset are not listed
    base = {**study.plan.base, "model": {**study.plan.base["model"], "depth": 7}}
    _, settings = facts_of(replace(study, plan=study.plan.changed(base=base)))
    assert settings["model.depth"] == "7"


def test_the_runs_of_a_cohort_share_its_time_and_the_most_frequent_hardware_is_first(tmp_path):
    study = study_of(tmp_path)
    hardware = ["slow" if seed > 2 else "fast" for seed in study.runs["seed"]]
    runs = study.runs.assign(hardware=hardware, wall_seconds=10.0, cohort=5, device_seconds=1.0)
    facts, _ = facts_of(replace(study, runs=runs))
    assert facts["Hardware"] == "fast (6 runs); slow (4 runs)"
    assert facts["Total time"] == "20 s summed over 10 runs, of which 10 s device time"
    assert facts["Versions"] == "python 3.11.7, torch 2.15.0"


def test_the_runs_are_reproduced_by_their_commit_their_command_and_the_report(tmp_path):
    """A command of a record is one line of quoted words, whatever it holds."""
    study = study_of(tmp_path, command="vit-sweep run mine.yaml --seeds 0,3 --note 'a\nrm -rf b'")
    checkout, trained, report = commands(study).splitlines()
    assert checkout == f"git checkout {study.runs['commit'][0]}"
    commits = ["b" * 40, "a" * 40, *["c" * 40] * (len(study.runs) - 2)]
    of_several = study.runs.assign(commit=commits, started=[f"2026-01-{28 - n:02}" for n in range(len(study.runs))])
    note, checkout, *_ = commands(replace(study, runs=of_several)).splitlines()
    assert note.startswith("# the runs are of several commits") and checkout == "git checkout " + "b" * 40
    assert trained.startswith("vit-sweep run mine.yaml --seeds 0,3") and report == "vit-report runs/position"
    explored = commands(read(str(tmp_path / "position"), metric="val/acc"))
    assert explored.splitlines()[-1] == "vit-report runs/position --metric val/acc"
