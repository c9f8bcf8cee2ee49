"""Looks at a study: what is recorded, what the report says of it, and which seeds the tests of a planned look use."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import study_file
from scipy import stats as scipy_stats
from shown import answer, section, warnings
from synthetic import write_factorial, write_study

from analysis.commands import record_looks
from analysis.findings import analyze
from analysis.report import study_document
from analysis.runs.exported import export, read_export
from analysis.runs.folder import read_folder
from analysis.write import files as write
from experiments.runs import record
from experiments.runs.history import LOOKS, Look, add_look, read_looks

ACCURACY = {"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951}
LEVEL_AT_HALF = 0.05 / 8


def unfinished(seeds, planned):
    return {(variant, seed): "absent" for variant in ACCURACY for seed in range(seeds, planned)}


def study_at(folder, seeds, looks=(), planned=10, **options):
    """A study of ten planned seeds, of which the first `seeds` have finished."""
    options = {"statuses": unfinished(seeds, planned), **options}
    return write_study(folder, accuracy=ACCURACY, seeds=planned, epochs=2, looks=list(looks), **options)


def results_at(folder, seeds, looks=(), planned=10, **options):
    return analyze(read_folder(study_at(folder, seeds, looks, planned, **options)))


def test_a_look_counts_if_any_variant_has_two_seeds(tmp_path):
    for most, recorded in ((1, 0), (2, 1)):
        add_look(tmp_path, Look.now([1, most], "test/acc", "here"))
        assert len(read_looks(tmp_path)) == recorded


def test_a_report_at_five_and_at_ten_seeds_says_that_it_is_the_second_look(tmp_path, vit_report):
    first, second = study_at(tmp_path / "a", 5), study_at(tmp_path / "b", 10)
    assert vit_report(first)[0] == 0
    assert warnings(analyze(read_folder(first))) == []
    (look,) = read_looks(first)
    assert (look.fewest, look.most, look.metric, look.command) == (5, 5, "test/acc", "vit-report")
    shutil.copy(first / LOOKS, second)  # five more seeds have finished
    assert vit_report(second)[0] == 0
    assert [look.most for look in read_looks(second)] == [5, 10]
    (warning,) = warnings(analyze(read_folder(second)))
    assert warning.startswith("The study was tested 2 times, first at 5 seeds, without planned looks.")
    assert "(for a single comparison, to at most 9.75 %)" in warning  # Armitage et al. (1969): 8.3 %
    again = read_folder(second)  # the same seeds again are no new look
    record_looks([again])
    assert len(read_looks(second)) == len(analyze(again).conduct.looks) == 2


def test_an_exported_study_carries_its_looks_and_is_not_changed_by_a_report(tmp_path):
    folder = study_at(tmp_path / "a", 10)
    add_look(folder, Look(time="2026-01-01T00:00:00+00:00", fewest=5, most=5, metric="test/acc", command="vit-report"))
    exported = export(read_folder(folder), tmp_path / "exported")
    assert read_export(exported).looks == read_folder(folder).looks
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    record_looks([read_export(exported)])
    assert warnings(analyze(read_export(exported)))[0].startswith("The study was tested 2 times, first at 5 seeds")
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before


def test_the_beginning_of_a_line_that_was_cut_off_is_no_look(tmp_path):
    folder = study_at(tmp_path, 5)
    record_looks([read_folder(folder)])
    before = (folder / LOOKS).read_text()
    (folder / LOOKS).write_text(before + '{"time": "x", "fewest": tr')
    (look,) = read_looks(folder)
    add_look(folder, look.model_copy(update={"most": look.most + 1}))
    assert [each.most for each in read_looks(folder)] == [look.most, look.most + 1]
    assert (folder / LOOKS).read_text().startswith(before)


def difference(results, seeds):
    """learned-1d − none over the first seeds, from the values themselves."""
    return np.array(
        [results.means.values["learned-1d"][seed] - results.means.values["none"][seed] for seed in range(seeds)]
    )


@pytest.mark.parametrize("finished", [5, 7])
def test_between_two_looks_the_tests_use_the_seeds_of_the_first(finished, tmp_path):
    study = read_folder(study_at(tmp_path, finished, looks=[5, 10], spread=0.03))
    results = analyze(replace(study, plan=study.plan.model_copy(update={"variance": "paired"})))
    diffs = difference(results, 5)
    low, high = scipy_stats.t.interval(1 - LEVEL_AT_HALF, 4, diffs.mean(), scipy_stats.sem(diffs))
    found = results.comparisons.versus["learned-1d"]
    assert found.n == 5
    assert (found.diff.value, found.diff.low, found.diff.high) == pytest.approx((diffs.mean(), low, high), rel=1e-3)
    assert results.means.of("learned-1d").n == finished
    (said,) = section(results, "looks").paragraphs
    assert said.startswith("The study plans to test at 5 and 10 seeds. This is the look at 5 seeds. The next look is ")
    assert "its level, 0.625 % instead of 5 %" in said
    assert ("The runs of 7 seeds have ended; differences and verdicts use the first 5." in said) == (finished == 7)
    assert "together, at the level of the planned look" in " ".join(section(results, "result").items[0].notes)


def test_a_difference_that_a_later_look_does_not_show_is_said_with_the_seeds_that_showed_it(tmp_path):
    """learned-1d is 5 points ahead on seeds 0 to 4, and 20 points ahead or behind on the others."""
    study = read_folder(study_at(tmp_path, 10, looks=[5, 10], spread=0.001))
    ahead = np.array([0.05] * 5 + [0.2, -0.2, 0.2, -0.2, 0.0])
    runs = study.runs.set_index(["variant", "seed"]).sort_index()
    runs.loc["learned-1d", "test/acc"] = runs.loc["none", "test/acc"].to_numpy() + ahead
    results = analyze(replace(study, runs=runs.reset_index()))
    found = results.comparisons.versus["learned-1d"]
    assert (found.verdict, found.shown_at) == ("not shown", 5)
    said = answer(results)
    assert "; shown at an earlier look, but not at this one: learned-1d (at 5 seeds)." in said
    assert "undecided (shown at 5 seeds)" in write.make(study_document(results))["report.md"].decode()


@pytest.mark.parametrize("finished", [5, 10])
def test_a_difference_that_the_first_of_two_looks_shows_is_said_to_be_early(finished, tmp_path):
    study = read_folder(study_at(tmp_path, finished, looks=[5, 10], spread=0.001))
    runs = study.runs.assign(**{"test/acc": study.runs["test/acc"] + 0.2 * (study.runs["variant"] == "learned-1d")})
    results = analyze(replace(study, runs=runs))
    assert results.comparisons.versus["learned-1d"].verdict == "better"
    assert ("at an early look" in answer(results)) == (finished == 5)


def test_beyond_the_last_look_there_are_no_new_verdicts(tmp_path):
    results = results_at(tmp_path, 10, looks=[4, 8], spread=0.03)
    assert {compared.n for compared in results.comparisons.pairs.values()} == {8}
    (said,) = section(results, "looks").paragraphs
    assert "It is the last look: more seeds give no new verdicts." in said and "verdicts use the first 8." in said


@pytest.mark.parametrize(
    "write", [study_at, lambda folder, seeds, looks: write_factorial(folder, seeds=seeds, looks=looks)]
)
def test_before_the_first_look_nothing_is_tested(write, tmp_path):
    results = analyze(read_folder(write(tmp_path, 3, looks=[5, 10])))
    found = {(compared.verdict, compared.reason) for compared in results.comparisons.pairs.values()}
    assert found == {("not tested", "waiting for a look")}
    assert results.factors.model is None
    assert ("first planned look is at 5 seeds" in results.factors.skipped_reason) == (len(results.study.factors) > 1)
    assert "first planned look is at 5 seeds, and all runs of 3 seeds have ended" in answer(results)
    assert "Best mean test accuracy so far: " in answer(results)
    assert all(
        np.isnan([compared.p_adjusted, compared.diff.low]).all() for compared in results.comparisons.pairs.values()
    )


def test_a_look_waits_for_every_run_of_its_seeds_and_takes_diverged_runs_as_ended(tmp_path):
    waiting = unfinished(6, 10) | {("none", 2): "absent"}
    assert results_at(tmp_path / "a", 6, looks=[3, 5], statuses=waiting).policy.looks.waiting
    lost = unfinished(6, 10) | {("none", 2): "diverged"}
    results = results_at(tmp_path / "b", 6, looks=[3, 5], statuses=lost)
    assert results.policy.looks.seeds == (0, 1, 2, 3, 4)
    assert (results.comparisons.versus["learned-1d"].n, results.comparisons.versus["learned-1d"].dropped) == (4, 1)


@pytest.mark.parametrize(("before", "now", "said"), [([], [5, 10], "to 5, 10."), ([4], [], "to no looks.")])
def test_looks_that_were_changed_after_the_first_run_are_reported(before, now, said, tmp_path):
    folder = study_at(tmp_path, 5, looks=now)
    earlier = [{"runs": 1, "stated": {"seeds": [0, 1], "looks": before}}]
    study_file.write_study(folder, {**study_file.read_study(folder), "earlier": earlier})
    seeds, found = warnings(analyze(read_folder(folder)))  # the changed looks do not foresee the changed seeds
    assert seeds.startswith("Seeds were added after 1 run had started: from 0, 1 to 0, 1, 2, 3, ")
    assert found.startswith("The planned looks were changed after 1 run had started, to ") and said in found


def test_seeds_that_the_planned_looks_foresee_are_no_warning(tmp_path):
    folder = study_at(tmp_path, 10, looks=[5, 10])
    earlier = [{"runs": 5, "stated": {"seeds": list(range(5))}}]
    study_file.write_study(folder, {**study_file.read_study(folder), "earlier": earlier})
    assert warnings(analyze(read_folder(folder))) == []


def test_a_folder_that_cannot_be_written_does_not_stop_the_report(tmp_path, capsys, monkeypatch):
    def refuse(*_):
        raise record.RecordError("looks.jsonl: cannot be written: Read-only file system")

    monkeypatch.setattr("analysis.findings.conduct.add_look", refuse)
    record_looks([read_folder(study_at(tmp_path / "a", 5))])
    said = capsys.readouterr().err
    assert said == "vit-report: this look is not recorded: looks.jsonl: cannot be written: Read-only file system\n"
