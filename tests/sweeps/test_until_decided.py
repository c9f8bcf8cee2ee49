"""Seeds until decided: which variants stop, at which look, and that an interrupted sweep goes on where it was."""

import json

import numpy as np
import pandas as pd
import pytest
from analysis.verdicts.stopping import after_looks
from page import REFERENCE, STUDIES, results
from stubbed import Stubbed, finish, tiny_plan
from study_file import read_study
from synthetic import write_study

from analysis.findings import analyze
from analysis.runs.folder import read_folder
from analysis.verdicts.study import compare_variants, from_rows
from experiments.errors import UserError
from experiments.stated import UntilDecided
from experiments.study import StudyPlan
from sweeps import until_decided
from sweeps.study import parse_study
from sweeps.study_folder import StudyFolder, plan_of
from sweeps.until_decided import runs_by_look, with_looks

FLAG = "--until-decided"
THREE = {"factors": {"model.depth": [1, 2, 3]}, "looks": [3, 6]}
# of six seeds; beside the first variant, the second is worse by 80 points and the third neither better nor equivalent
ACCURACY = {"1": [0.9, 0.92, 0.91, 0.9, 0.91, 0.9], "2": [0.1, 0.12, 0.11], "3": [0.99, 0.82, 0.95, 0.83, 0.99, 0.9]}


def planned(folder):
    """Variant -> its planned seeds in study.json."""
    seeds = {}
    for run in read_study(folder)["runs"]:
        seeds.setdefault(run["variant"], []).append(run["seed"])
    return seeds


def test_a_variant_stops_at_the_look_that_decides_it_also_if_the_sweep_is_stopped(tmp_path, scripted, vit_sweep):
    study, fate = Stubbed(tmp_path, **THREE), lambda run: {"test/acc": ACCURACY[run.variant][run.seed]}
    words = ("run", study.study, "--out", tmp_path)

    def stopped(engine):
        while len(engine.ended) < 10:  # in the second look
            yield engine.started[0].end()
        raise KeyboardInterrupt

    first = scripted(script=stopped, fate=fate)
    assert vit_sweep(*words, FLAG)[0] == 130
    assert planned(study.dir) == {"1": list(range(6)), "2": [0, 1, 2], "3": list(range(6))}
    second = scripted(fate=fate)
    status, out, err = vit_sweep(*words, FLAG)
    assert status == 0, err
    assert "tiny: 3 variants x up to 6 seeds, up to " in out
    assert "look at 6 seeds: decided: 1 (2); undecided: 1 (3)\n" in out
    assert "seeds until decided: 15 of 18 runs trained, 3 saved\n15 runs: 15 finished\n" in out
    assert len(first.ended) == 10 and len(second.ended) == 5
    assert read_study(study.dir)["until_decided"] == {"pairs": False}
    status, _, err = vit_sweep(*words)  # would train all seeds of all variants
    assert status == 2 and "until_decided is true there and false here" in err


def look(monkeypatch, reached, undecided):
    monkeypatch.setattr(until_decided, "_verdicts", lambda plan, ended: (reached, undecided))


def sweep(plan, folder, answers, monkeypatch):
    """The number of runs trained before each look, where these are the answers: look ->
    undecided.
    """
    numbers = []
    for names, (reached, undecided) in zip(runs_by_look(StudyFolder(folder, plan, {})), answers.items(), strict=True):
        look(monkeypatch, reached, undecided)
        numbers.append(len(names))
    return numbers


def start(folder, pairs=False, **fields):
    """The plan of a study of variants 1, 2 and 3 with looks at 3, 6 and 9 seeds, as `vit-sweep run` writes it."""
    study = with_looks(parse_study({"name": "tiny", **THREE, "looks": [3, 6, 9], **fields}, "tiny"), None)
    plan = tiny_plan(**study.model_dump()).model_copy(update={"until_decided": UntilDecided(pairs=pairs)})
    plan = StudyFolder.read(plan, folder).plan
    StudyFolder(folder, plan).write("here")
    return plan


def test_the_baseline_goes_on_until_all_others_are_decided_and_a_new_variant_starts_it_again(tmp_path, monkeypatch):
    answers = {3: {"1": ["2"], "2": ["1"], "3": ["2"]}, 6: {"1": [], "2": [], "3": []}}
    assert sweep(start(tmp_path), tmp_path, answers, monkeypatch) == [9, 15]
    assert StudyPlan.read(tmp_path).stopped == {"3": 3, "2": 6, "1": 6}
    assert planned(tmp_path) == {"1": list(range(6)), "2": list(range(6)), "3": [0, 1, 2]}
    assert read_study(tmp_path)["seeds"] == list(range(6))
    again = {6: {"1": [], "2": [], "3": []}}  # all is done
    assert sweep(plan_of(tmp_path), tmp_path, again, monkeypatch) == [9]
    passed_over = {6: {"1": ["2"], "2": ["1"], "3": []}, 9: again[6]}
    assert sweep(start(tmp_path / "other"), tmp_path / "other", passed_over, monkeypatch) == [9, 24]
    more = start(tmp_path, factors={"model.depth": [1, 2, 3, 4]})
    assert more.stopped == {"3": 3, "2": 6}
    assert {label: len(seeds) for label, seeds in planned(tmp_path).items()} == {"1": 9, "2": 6, "3": 3, "4": 9}


def test_with_pairs_a_variant_goes_on_until_it_is_decided_with_every_other(tmp_path, monkeypatch):
    answers = {3: {"1": [], "2": ["3"], "3": ["2"]}, 6: {"1": [], "2": [], "3": []}}
    assert sweep(start(tmp_path / "a", pairs=True), tmp_path / "a", answers, monkeypatch) == [9, 18]
    assert sweep(start(tmp_path / "b"), tmp_path / "b", {3: answers[3]}, monkeypatch) == [9]
    assert sweep(start(tmp_path / "b", pairs=True), tmp_path / "b", answers, monkeypatch) == [9, 18]  # all go on


@pytest.mark.parametrize(
    ("study", "most", "seeds", "looks"),
    [
        ({}, None, 20, [5, 8, 12, 20]),
        ({}, 10, 10, [5, 8, 10]),
        ({}, 30, 30, [5, 8, 12, 20, 30]),
        ({"looks": [4, 7]}, None, 7, [4, 7]),
        ({"seeds": [9, 4, 6, 1, 2, 3, 7]}, None, [9, 4, 6, 1, 2, 3, 7], [5, 7]),
        ({"seeds": [9, 4, 6]}, 2, [9, 4], [2]),
    ],
)
def test_the_looks_end_at_the_largest_number_of_seeds(study, most, seeds, looks):
    study = with_looks(parse_study({"name": "own", "factors": {"model.depth": [1, 2]}, **study}, "own"), most)
    assert (study.seeds, study.looks) == (seeds, looks)


def test_a_study_that_has_started_gets_no_seeds_after_its_last_look(tmp_path, refused):
    study = Stubbed(tmp_path, **{**THREE, "looks": [3, 6, 9]})
    (first, *_) = start(study.dir, base=study.fields["base"]).runs
    finish(study.dir / first.name, first)
    before = (study.dir / "study.json").read_bytes()
    said = refused("run", study.study, FLAG, "--max-seeds", 12, "--out", tmp_path)
    assert "looks is [3, 6, 9] there and [3, 6, 9, 12] here, and the looks share the 5 %: it ends at 9 seeds" in said
    assert "--max-seeds adds none" in said and (study.dir / "study.json").read_bytes() == before


def test_studies_that_cannot_be_tested_are_refused(tmp_path, refused):
    several = {"name": "own", "factors": {"data.name": ["digits", "mnist"]}}
    with pytest.raises(UserError, match="--until-decided: is not allowed for a study of several datasets"):
        with_looks(parse_study(several, "own"), None)
    start(tmp_path / "tiny")
    assert "gets seeds until it is decided" in refused("wandb", tmp_path / "tiny")
    tree = json.loads((tmp_path / "tiny" / "study.json").read_text())
    tree["runs"] = [run for run in tree["runs"] if run["variant"] != "1" or run["seed"] < 4]
    (tmp_path / "tiny" / "study.json").write_text(json.dumps(tree))
    assert "runs: '1' has 4 run(s); expected one of the looks, [3, 6, 9]" in refused("run", tmp_path / "tiny")


def simulated(folder, seed):
    """A study of three to five variants whose runs finish, diverge, are stopped early or are left out, at random."""
    rng = np.random.default_rng(seed)
    kinds = ["none", "learned-1d", "learned-2d", "rope-2d", "cpe"][: rng.integers(3, 6)]
    accuracy = dict(zip(kinds, rng.choice([0.1, 0.6, 0.605, 0.7, 0.998], len(kinds))))
    chances = [0.75, 0.1, 0.1, 0.05]
    statuses = {
        (kind, n): str(rng.choice(["finished", "diverged", "pruned", "absent"], p=chances))
        for kind in kinds
        for n in range(4)
    }
    options = {"looks": [2, 4], "metric": str(rng.choice(["test/acc", "val/loss"])), "spread": 0.002}
    return write_study(folder, accuracy=accuracy, seeds=4, epochs=1, statuses=statuses, **options)


@pytest.mark.parametrize("block", range(3))
def test_a_sweep_and_a_report_leave_the_same_pairs_undecided(block, tmp_path):
    """Of simulated studies with failed runs: the sweep reads summaries, the report a frame of runs."""
    undecided = set()
    for seed in range(20 * block, 20 * block + 20):
        folder = simulated(tmp_path / str(seed), seed)
        found = analyze(read_folder(folder))
        plan = StudyPlan.read(folder)
        answer = until_decided._verdicts(plan, StudyFolder.read(plan, folder).ended)
        assert answer == (len(found.policy.looks.seeds), found.comparisons.undecided)
        undecided.add(sum(map(len, answer[1].values())))
    assert len(undecided) > 3


@pytest.mark.parametrize("pairs", [False, True])
def test_a_plan_for_a_table_stops_each_variant_at_the_look_at_which_a_sweep_stops_it(pairs, tmp_path):
    """The sweep sees the runs of one look after the other; a table may hold all of them at once."""
    numbers = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        accuracy = dict(zip(["none", "learned-1d", "cpe", "rope-2d"], rng.choice([0.3, 0.5, 0.505, 0.6, 0.8], 4)))
        failed = {(kind, n): "diverged" for kind in accuracy for n in range(6) if rng.random() < 0.05}
        options = {"looks": [2, 4, 6], "until_decided": {"pairs": pairs}, "spread": 0.004}
        folder = write_study(tmp_path / str(seed), accuracy=accuracy, seeds=6, epochs=1, statuses=failed, **options)
        plan = StudyPlan.read(folder)
        every, sweep = StudyFolder.read(plan, folder).ended, StudyFolder(folder, plan, {})
        for names in runs_by_look(sweep):
            sweep.ended.update({name: every[name] for name in names})
        _, kept = after_looks(plan, [until_decided._row(plan, run, every) for run in plan.runs])
        assert kept.stopped == StudyPlan.read(folder).stopped
        numbers += kept.stopped.values()
    assert len(set(numbers) - {6}) > 0


@pytest.mark.parametrize("name", STUDIES)
def test_rows_of_an_export_lead_to_the_verdicts_of_its_report(name):
    """The rows are read from the CSV file, as far as it states them; older exports leave out defaults."""
    found = results(name)
    rows = pd.read_csv(REFERENCE / name / "runs.csv", dtype={"variant": str}).to_dict("records")
    defaults = {"data.classes": "", "data.num_classes": None}
    plan = found.study.plan
    stated = [defaults | {name: value for name, value in row.items() if value == value} for row in rows]
    policy, values = from_rows(plan, stated, plan.margin)
    compared = compare_variants(values, plan.baseline, policy)
    assert policy == found.policy and compared.undecided == found.comparisons.undecided
    assert {pair: one.verdict for pair, one in compared.pairs.items()} == {
        pair: one.verdict for pair, one in found.comparisons.pairs.items()
    }
