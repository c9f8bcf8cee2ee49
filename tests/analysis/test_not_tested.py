"""A comparison without an interval is "not tested", with its reason, wherever a report says something of it."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import shown
from synthetic import change_summary, results_of, write_factorial, write_study

import analysis
from analysis.findings import analyze
from analysis.outputs.across import studies_table
from analysis.outputs.as_json import as_dict
from analysis.outputs.paper_table import paper_table
from analysis.questions.factors import question as factors
from analysis.questions.methods import question as methods
from analysis.questions.pairs import question as differences
from analysis.questions.results import question, variants_table
from analysis.runs.folder import read_folder
from analysis.write import latex, markdown
from analysis.write.table import Table

KINDS = ("none", "cpe", "rope-2d")
ACCURACY = {"none": 0.70, "cpe": 0.80, "rope-2d": 0.90}
FAILED = "failed runs, chance level unknown"


def gone(variant, seeds, status="absent"):
    return {(variant, seed): status for seed in seeds}


def frame(lost=(), variants=("sgd", "m1", "m2", "m3"), seeds=5, base=90.0):
    """Runs of another program; `lost`: (variant, seed) of those without a value, which failed."""
    rng = np.random.default_rng(1)
    rows = [(v, s, base + 2 * i + 0.3 * rng.standard_normal()) for i, v in enumerate(variants) for s in range(seeds)]
    table = pd.DataFrame(rows, columns=["method", "seed", "acc"])
    table.loc[[(v, s) in lost for v, s in zip(table["method"], table["seed"])], "acc"] = np.nan
    return table


def compared(lost=(), **options):
    return analysis.compare(frame(lost, **options), "acc", "method", baseline="sgd", margin=0.1).findings


CASES = {
    FAILED: lambda path: compared({("sgd", 1), ("sgd", 3)}),
    "failed runs": lambda path: results_of(
        path, accuracy=ACCURACY, statuses=gone("none", range(4), "diverged"), spread=0.002
    ),
    "one common seed": lambda path: results_of(path, accuracy=ACCURACY, statuses=gone("none", range(4)), spread=0.002),
    "no common seed": lambda path: results_of(
        path,
        accuracy=ACCURACY,
        statuses=gone("none", (0, 1, 2)) | gone("cpe", (3, 4)) | gone("rope-2d", (3, 4)),
        spread=0.002,
    ),
    "waiting for a look": lambda path: results_of(path, accuracy=ACCURACY, looks=[10, 20], spread=0.002),
    "no spread over the seeds": lambda path: results_of(
        path, accuracy={"none": 0.700, "cpe": 0.701, "rope-2d": 0.702}, spread=0
    ),
}
STATEMENTS = ("no difference is shown", "no equivalence", "not shown", "better than none", "better than sgd")


@pytest.mark.parametrize("reason", CASES)
def test_an_untested_baseline_is_said_to_be_untested_and_nothing_else(reason, tmp_path):
    findings = CASES[reason](tmp_path)
    baseline = findings.variants.baseline
    for variant, one in findings.comparisons.versus.items():
        assert variant == baseline or (one.verdict, one.reason, one.tested) == ("not tested", reason, False)
        assert variant == baseline or np.isnan([one.p, one.p_adjusted, one.detectable, one.diff.low]).all()
    rows = shown.rows(variants_table(findings))
    assert {row["verdict"] for row in rows} - {"baseline"} == {f"not tested ({reason})"}
    assert '"Not tested": there is no interval' in str(methods(findings).items)
    first = differences(findings).answer[0]
    assert not [said for said in STATEMENTS if said in first.lower()]
    versus = [one for one in as_dict(findings)["comparisons"] if baseline in (one["variant"], one["reference"])]
    for one in versus:
        assert (one["verdict"], one["reason"]) == ("not tested", reason)
        assert [one[field] for field in ("p_adjusted", "detectable", "low", "high")] == [None] * 4
    assert json.dumps(versus)


@pytest.mark.parametrize("reason", [FAILED, "failed runs", "one common seed", "no common seed"])
def test_more_seeds_are_advised_where_few_are_the_reason(reason, tmp_path):
    said = " ".join(differences(CASES[reason](tmp_path)).answer)
    assert ("For more runs, train more seeds" in said) == ("common seed" in reason)


def test_pairs_that_are_not_tested_are_counted_as_such_among_the_others():
    """m1 failed once, and has four seeds in common with m2 and m3."""
    findings = compared({("m1", 2)})
    (_, second, *_) = differences(findings).answer
    assert "(pairs: 6)" in " ".join(variants_table(findings).notes)  # also those of m1, as planned
    assert second.endswith(f"of all 6 pairs: 3 differ, 3 not tested ({FAILED}).")


@pytest.mark.parametrize("status", ["pruned", "diverged"])
def test_a_run_that_did_not_finish_has_no_value_and_is_counted(status, tmp_path):
    """A pruned run has an accuracy, which is too low or too lucky to count."""
    findings = results_of(tmp_path, accuracy=ACCURACY, statuses=gone("cpe", (1,), status))
    one = findings.comparisons.versus["cpe"]
    assert np.isnan(findings.means.values["cpe"][1]) and (one.n, one.dropped) == (4, 1)
    assert any(said.lower().startswith(status) for said in shown.warnings(findings))


def test_what_the_seeds_can_see_is_of_tested_pairs_only():
    """m1 and m2 do not differ visibly; sgd, which failed twice, is far from both, and nothing tests it."""
    runs = frame(variants=("m1", "m2"), seeds=5)
    wide = runs.assign(acc=runs["acc"].where(runs["method"] == "m1", runs["acc"] - 2))
    base = frame({("sgd", 1), ("sgd", 3)}, variants=("sgd",), base=40.0)
    findings = analysis.compare(pd.concat([wide, base]), "acc", "method", baseline="sgd", margin=0.1).findings
    (open_pair,) = findings.comparisons.other_pairs.values()
    section = differences(findings)
    first, (last,) = section.answer[0], section.paragraphs
    assert first.startswith(f"Not tested against sgd ({FAILED}): m1 and m2.")
    assert f"a difference of about {open_pair.detectable:.2f} would be noticed" in last


def test_an_untested_variant_can_have_every_rank_and_has_no_place_among_the_best():
    """Two survivors of five have the highest mean of eight variants; bold is for those that are tested."""
    names = [f"m{i}" for i in range(8)]
    findings = analysis.compare(
        frame({("m7", s) for s in range(3)}, variants=names), "acc", "method", baseline="m0", margin=0.1
    ).findings
    assert findings.means.best == "m7" and findings.all_best == ["m6"]
    ranks = findings.comparisons.ranks  # m7 can be before or behind each of the others
    assert ranks == {"m7": (1, 8), **{f"m{i}": (7 - i, 8 - i) for i in range(7)}}
    table = variants_table(findings)
    marks = {row.variant: row.mark for row in findings.rows}
    assert (marks["m6"], marks["m7"]) == ("best", "untested")
    assert "of the variants that are tested" in table.caption and "‡" in table.caption
    paper = paper_table(findings, None)
    lines = {line.split(" & ")[0]: line for line in latex.table(paper).splitlines() if line.startswith("m")}
    assert r"$^\ddagger$" in lines["m7"] and r"\textbf" not in lines["m7"] and r"\textbf" in lines["m6"]
    assert "‡: not compared with it." in paper.caption and "of the variants that are tested" in paper.caption
    assert "‡" in str(markdown.table(paper))
    row = next(line for line in markdown.table(paper).splitlines() if line.startswith("| m7"))
    assert (
        row.split("|")[4].strip() == "–"
        and "Variants that are not tested against m0 have no difference." in paper.caption
    )


def test_a_pair_that_is_not_tested_widens_the_ranks_of_both():
    runs = frame(variants=[f"m{i}" for i in range(8)], seeds=6)
    halves = (runs["method"] == "m0") & (runs["seed"] > 2) | (runs["method"] == "m1") & (runs["seed"] < 3)
    findings = analysis.compare(runs[~halves], "acc", "method", baseline="m2", margin=0.1).findings
    assert findings.comparisons.pairs["m0", "m1"].reason == "no common seed" and not findings.comparisons.untested
    ranks = findings.comparisons.ranks  # m7 is the best, m0 and m1 are the last
    assert ranks == {"m0": (7, 8), "m1": (7, 8), **{f"m{i}": (8 - i, 8 - i) for i in range(2, 8)}}


def test_nothing_is_bold_where_nothing_is_tested():
    lost = {("sgd", 0), *(("m1", s) for s in range(4)), ("m2", 1), ("m3", 2)}
    findings = compared(lost)
    assert findings.all_best == []
    assert {row.mark for row in findings.rows} == {""}
    assert "Bold" not in variants_table(findings).caption
    assert "textbf" not in latex.table(paper_table(findings, None))


def test_an_untested_variant_has_its_own_mark_across_studies_and_in_figures():
    findings = compared({("m1", 2)})
    table = studies_table({"a": findings})
    (row,) = [row for row in table.shown().rows if row[0].text == "m1"]
    assert (row[1].mark, row[1].sign) == ("not-tested", "×") and "× not tested" in table.caption
    assert "no mark: not shown" not in table.caption
    _, plot = question(findings).items
    legend = [text.get_text() for text in plot.figure.legends[0].get_texts()]
    assert "not tested" in legend and "not shown" not in legend


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_at_the_ceiling_a_difference_that_is_not_shown_is_not_left_open_unless_a_run_failed(status, tmp_path):
    """One wrong image of 360 in a run of each; a margin of 0.1 points is less than an image."""
    folder = write_study(
        tmp_path, accuracy={"none": 0.5, "cpe": 0.9, "rope-2d": 0.9}, margin=0.001, statuses={("cpe", 4): status}
    )
    for index, seed in itertools.product((1, 2), range(5)):
        if (index, seed) != (1, 4) or status == "finished":
            change_summary(folder / f"v{index}-s{seed}", **{"test/acc": 1 - (index == seed) / 360})
    verdict = analyze(read_folder(folder)).comparisons.pairs["cpe", "rope-2d"].verdict
    assert verdict == ("both at the ceiling" if status == "finished" else "not shown")


def test_factors_with_failed_runs_of_unknown_level_are_not_tested(tmp_path):
    """With known classes, the same study shows no interaction; without them, it says nothing of one."""
    lost = gone("depth=2, head=logits", (0,), "diverged")
    study = read_folder(write_factorial(tmp_path, seeds=6, metric="test/loss", margin=0.05, statuses=lost))
    known = " ".join(factors(analyze(study)).answer)
    unknown = study.runs.assign(**{"data.name": "mine", "data.num_classes": None})
    findings = analyze(replace(study, runs=unknown))
    section = factors(findings)
    said = " ".join(section.answer)
    assert "Not tested" not in known
    assert f"; not tested ({FAILED}): depth, head and depth × head." in said
    assert "No interaction is shown" not in said and "Main effects" not in said
    assert "Shown by the finished runs alone" not in said
    for table in (item for item in section.items if isinstance(item, Table) and "verdict" in item.data):
        assert set(table.data["verdict"]) == {"not tested"}


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        (([0, 0, 0], [0, 0, 0]), "both at the ceiling"),
        (([0, 0, 0], [1, 0, 0]), "both at the ceiling"),
        (([1, 1, 0], [1, 0, 1]), "both at the ceiling"),
        (([2, 0, 0], [0, 0, 0]), "equivalent"),
        (([2, 2, 2], [2, 2, 2]), "not tested"),
    ],
)
def test_two_variants_that_err_on_at_most_one_image_a_run_leave_no_room(wrong, verdict, tmp_path):
    """Of 360 images, with a margin of 10 points."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "cpe": 0.9, "rope-2d": 0.9}, seeds=3, margin=0.1)
    for index, errors in enumerate(wrong, start=1):
        for seed, n in enumerate(errors):
            change_summary(folder / f"v{index}-s{seed}", **{"test/acc": 1 - n / 360})
    findings = analyze(read_folder(folder))
    assert findings.comparisons.pairs["cpe", "rope-2d"].verdict == verdict
    said = shown.answer(findings)
    assert ("1 both at the ceiling" in said) == (verdict == "both at the ceiling")
    assert findings.comparisons.versus["cpe"].verdict == "better"
