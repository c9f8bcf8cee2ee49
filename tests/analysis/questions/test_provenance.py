"""Where numbers come from, and the commands that make them again."""

import html
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from synthetic import write_study

import analysis
from analysis.findings import analyze
from analysis.questions.provenance import commands, question
from analysis.report import study_document
from analysis.runs.read import read
from analysis.write import files as write
from experiments.cli import Parser
from sweeps.commands import run
from sweeps.commands.arguments import parse_plan

REFERENCE = Path(analysis.__file__).parent / "reference"
STUDIES = sorted(path.parent for path in REFERENCE.rglob("study.json"))
TWO = {"none": 0.7, "cpe": 0.9}
DEFINITION = {"name": "mine", "factors": {"model.pos_embed": ["none", "cpe"]}, "seeds": 2}


def study_of(tmp_path, **options):
    return read(str(write_study(tmp_path, accuracy=TWO, **options)))


def facts_of(study):
    origin, settings = question(analyze(study)).items
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
    assert settings["model.depth"] and not settings.keys() & {"model.pos_embed", "seed", "data.root"}


def test_the_runs_of_a_cohort_share_its_time_and_the_most_frequent_hardware_is_first(tmp_path):
    study = study_of(tmp_path)
    hardware = ["slow" if seed > 2 else "fast" for seed in study.runs["seed"]]
    runs = study.runs.assign(hardware=hardware, wall_seconds=10.0, cohort=5, device_seconds=1.0)
    facts, _ = facts_of(replace(study, runs=runs))
    assert facts["Hardware"] == "fast (6 runs); slow (4 runs)"
    assert facts["Total time"] == "20 s summed over 10 runs, of which 10 s device time"
    assert facts["Versions"] == "python 3.11.7, torch 2.15.0"


@pytest.mark.parametrize(
    ("command", "seeds", "expected"),
    [
        ("vit-sweep run my/mine.yaml --seeds 2 --out=there/", 4, "vit-sweep run my/mine.yaml --seeds 4 --out there/"),
        ("vit-sweep run my/mine.yaml --model.depth 2", 1, "vit-sweep run my/mine.yaml --model.depth 2 --seeds 1"),
        ("vit-sweep run 'not closed", 2, "# vit-sweep run 'not closed"),
        ("rm -rf here", 2, "# rm -rf here"),
    ],
)
def test_the_command_has_every_planned_seed(command, seeds, expected, tmp_path):
    study = study_of(tmp_path, seeds=seeds, command=command)
    folder = "there" if "there" in command else "runs"
    lines = commands(study)[0].splitlines()
    assert lines == [f"git checkout {study.runs['commit'][0]}", expected, f"vit-report {folder}/position"]


@pytest.mark.parametrize(
    ("tuned", "name"),
    [("mine-tuned.yaml", "mine-tuned.yaml"), ("runs/rates", "tuned.yaml"), ("a/study.json", "tuned.yaml")],
)
def test_a_tuned_study_is_reproduced_with_its_settings(tuned, name, tmp_path):
    """Whatever --tuned named, the block has a file that it reads. A study that goes on is named by its folder."""
    study = read(str(REFERENCE / "table-8-tuned"))
    plan = study.plan.model_copy(update={"command": f"vit-sweep run runs/{study.name} --tuned={tuned}"})
    first, definition, rates = commands(replace(study, plan=plan))
    assert f"vit-sweep run {study.name}.yaml --tuned {name} --seeds 5" in first.splitlines()
    assert definition.startswith(f"# {study.name}.yaml, as") and rates.startswith(f"# {name}, as the sweep read it")
    assert yaml.safe_load(rates) == study.plan.tuned.tree()


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.relative_to(REFERENCE).as_posix())
def test_the_commands_of_a_reference_study_plan_its_runs(folder, tmp_path, monkeypatch):
    """The block alone, as a stranger copies it: files, then `vit-sweep run`; also if it went on by its folder."""
    study, parser = read(str(folder)), Parser("vit-sweep")
    run.add(parser.add_subparsers())
    monkeypatch.chdir(tmp_path)
    for last in (study.plan.command, f"vit-sweep run runs/{study.name}"):
        first, *files = commands(replace(study, plan=study.plan.model_copy(update={"command": last})))
        for name, content in (re.fullmatch(r"# (\S+), as .*?\n(.*)", text, re.DOTALL).groups() for text in files):
            Path(name).write_text(content)
        (command,) = (line for line in first.splitlines() if line.startswith("vit-sweep run "))
        planned = parse_plan(parser.parse_args(shlex.split(command)[1:]))
        assert {one.run_id for one in planned.runs} == {one.run_id for one in study.plan.runs}


def test_an_exploratory_report_names_its_metric(tmp_path):
    explored = commands(read(str(write_study(tmp_path, accuracy=TWO)), metric="val/acc"))[0]
    assert explored.splitlines()[-1] == "vit-report runs/position --metric val/acc"


def test_the_users_own_file_is_copied_from_the_report_as_the_sweep_read_it(tmp_path):
    study = study_of(tmp_path, command="vit-sweep run my/mine.yaml", study=DEFINITION)
    files = write.make(study_document(analyze(study)))
    for name in ("report.md", "report.html"):
        page = html.unescape(files[name].decode())
        pattern = r"^(?:<pre><code>)?(# my/mine\.yaml.*?)\n?(?:```|</code></pre>)"
        (copied,) = re.findall(pattern, page, re.DOTALL | re.MULTILINE)
        assert yaml.safe_load(copied) == DEFINITION
