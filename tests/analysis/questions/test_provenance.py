"""Where numbers come from, and the commands that make them again."""

import html
import re
import shlex
from dataclasses import replace
from pathlib import Path

import page
import pandas as pd
import pytest
import yaml
from analysis.runs.tables.tabular import read_tables
from page import STUDIES
from synthetic import write_study

import analysis
from analysis.asked import Asked
from analysis.findings import analyze
from analysis.questions.provenance import PLUGINS, commands, question, study_file
from analysis.report import study_document
from analysis.runs.read import read
from analysis.write import files as write
from analysis.write.document import Facts
from experiments.cli import Parser
from experiments.config import RunConfig, override
from experiments.presets import preset
from experiments.study import COMPARISON
from sweeps.commands import run
from sweeps.commands.arguments import parse_plan

REFERENCE = Path(analysis.__file__).parent / "reference"
TWO = {"none": 0.7, "cpe": 0.9}
DEFINITION = {"name": "mine", "factors": {"model.pos_embed": ["none", "cpe"]}, "seeds": 2}


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
    assert settings["model.depth"] and not settings.keys() & {"model.pos_embed", "seed", "data.root"}


def test_the_runs_of_a_cohort_share_its_time_and_the_most_frequent_hardware_is_first(tmp_path):
    study = study_of(tmp_path)
    hardware = ["slow" if seed > 2 else "fast" for seed in study.runs["seed"]]
    runs = study.runs.assign(hardware=hardware, wall_seconds=10.0, cohort=5, device_seconds=1.0)
    facts, _ = facts_of(replace(study, runs=runs))
    assert facts["Hardware"] == "fast (6 runs); slow (4 runs)"
    assert facts["Total time"] == "20 s summed over 10 runs, of which 10 s device time"
    assert facts["Versions"] == "python 3.11.7, torch 2.15.0"


def test_the_block_needs_no_flag_of_the_sweep(tmp_path):
    """What its flags changed is in the file: the base, the seeds. A definition has the names of its plug-ins."""
    command = "vit-sweep run my/mine.yaml --model.depth 2 --seeds 0,3 --out 'not closed"
    definition = {**DEFINITION, "plugins": ["own.py"]}
    base = {"preset": "digits", "base": override(RunConfig(), {"model.depth": 3}).model_dump()}
    study = study_of(tmp_path, seeds=4, command=command, study=definition, **base)
    study = replace(study, runs=study.runs.assign(plugin_modules="own.py,other"))
    first, file = commands(study)
    assert first.splitlines() == [
        f"git checkout {study.runs['commit'][0]}",
        f"export VIT_PLUGINS=other {PLUGINS}",
        "vit-sweep run position.yaml",
        "vit-report runs/position",
    ]
    written = yaml.safe_load(file)
    assert written == {**definition, "base": written["base"], "seeds": 4}
    assert override(preset(written["base"].pop("preset")), written["base"]).model_dump() == base["base"]


def test_a_tuned_study_is_reproduced_with_its_settings():
    study = page.study("table-8-tuned")
    first, definition, rates = commands(study)
    assert f"vit-sweep run {study.name}.yaml --tuned tuned.yaml" in first.splitlines()
    assert definition.startswith(f"# {study.name}.yaml, as") and rates.startswith("# tuned.yaml, as the sweep used it")
    assert yaml.safe_load(rates) == study.plan.tuned.tree()


@pytest.mark.parametrize("name", STUDIES)
def test_the_commands_of_a_reference_study_plan_its_runs(name, tmp_path, monkeypatch):
    """The block alone, as a stranger copies it: files, then `vit-sweep run`."""
    study, parser = page.study(name), Parser("vit-sweep")
    run.add(parser.add_subparsers())
    monkeypatch.chdir(tmp_path)
    first, *files = commands(study)
    for name, content in (re.fullmatch(r"# (\S+), as .*?\n(.*)", text, re.DOTALL).groups() for text in files):
        Path(name).write_text(content)
    (command,) = (line for line in first.splitlines() if line.startswith("vit-sweep run "))
    planned = parse_plan(parser.parse_args(shlex.split(command)[1:]))
    assert {one.run_id for one in planned.runs} == {one.run_id for one in study.plan.runs}
    assert [getattr(planned, field) == getattr(study.plan, field) for field in COMPARISON] == [True] * len(COMPARISON)


def test_an_exploratory_report_names_its_metric(tmp_path):
    explored = commands(read(str(write_study(tmp_path, accuracy=TWO)), metric="val/acc"))[0]
    assert explored.splitlines()[-1] == "vit-report runs/position --metric val/acc"


def test_the_study_file_is_copied_from_the_report(tmp_path):
    study = study_of(tmp_path, study=DEFINITION)
    files = write.make(study_document(analyze(study)))
    for name in ("report.md", "report.html"):
        page = html.unescape(files[name].decode())
        pattern = r"^(?:<pre[^>]*><code>)?(# position\.yaml.*?)\n?(?:```|</code></pre>)"
        (copied,) = re.findall(pattern, page, re.DOTALL | re.MULTILINE)
        assert yaml.safe_load(copied) == study_file(study.plan)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vit-report runs.csv --metric acc", "vit-report runs.csv --metric acc"),
        ("analysis.read('runs.csv', factor=['a', 'b'])", "analysis.read('runs.csv', factor=['a', 'b'])"),
        ("analysis.read(__import__('os').system('x'))", "# analysis.read(__import__('os').system('x'))"),
        ("analysis.compare(frame); rm -rf here", "# analysis.compare(frame); rm -rf here"),
        ("rm -rf here", "# rm -rf here"),
    ],
)
def test_a_table_has_the_line_that_was_typed_and_no_other_command(command, line):
    frame = pd.DataFrame({"m": list("aabb"), "seed": [0, 1] * 2, "acc": [1.0, 2.0, 3.0, 4.5]})
    (study,) = read_tables(frame, "the table", Asked.of(metric="acc", factor="m"))
    assert commands(replace(study, plan=study.plan.changed(command=command))) == [line]
