"""What runs do that are lost, whatever the cause: nothing that the others show comes of their absence."""

import numpy as np
import pandas as pd
import pytest
from shown import answer, warnings
from synthetic import change_summary, results_of, write_study

import analysis
from analysis.findings import analyze
from analysis.questions.pairs import limits
from analysis.runs.read import read

KINDS = {"none": 0.70, "cpe": 0.71, "rope-2d": 0.90}
LACKS = "cpe has 3 of 5 seeds: no result of 3 and 4. Runs that failed and are left out make a variant look better than"


def lost(status, variant="cpe", seeds=(3, 4)):
    return {(variant, seed): status for seed in seeds}


@pytest.mark.parametrize("status", ["absent", "incomplete", "finished without the metric"])
def test_seeds_without_a_result_are_named_whatever_the_cause(status, tmp_path):
    known = {} if status.startswith("finished") else {"statuses": lost(status)}
    folder = write_study(tmp_path, accuracy=KINDS, **known)
    if status.startswith("finished"):
        for seed in (3, 4):
            change_summary(folder / f"v1-s{seed}", **{"test/acc": None})
    findings = analyze(read(str(folder)))
    assert findings.comparisons.versus["cpe"].n == 3
    assert sum(LACKS in line for line in warnings(findings)) == 1


def test_a_variant_with_fewer_unpaired_runs_is_named():
    rows = [(kind, 0.01 * (n * 7 % 5)) for kind in KINDS for n in range(3 if kind == "cpe" else 5)]
    findings = analysis.compare(pd.DataFrame(rows, columns=["kind", "acc"]), "acc", "kind", unpaired=True).findings
    assert sum("cpe has 3 runs; the others have 5." in line for line in warnings(findings)) == 1


def test_what_the_seeds_can_see_is_not_known_where_failed_runs_make_the_interval_wider(tmp_path):
    findings = results_of(tmp_path, accuracy={"none": 0.70, "cpe": 0.71}, spread=0.02, statuses=lost("diverged"))
    one = findings.comparisons.versus["cpe"]
    assert (one.verdict, one.n) == ("not shown", 3) and np.isnan(one.detectable) and not limits(findings)


def test_only_variants_that_are_tested_against_the_best_can_be_the_best():
    """`cpe` has no seed in common with the best, `rope-2d`, and is not shown to be worse than any other."""
    wave = [0.0, 0.02, -0.01, -0.02, 0.01, 0.0, 0.02]
    seeds = {"none": range(7), "learned-1d": range(7), "cpe": range(3), "rope-2d": range(3, 7)}
    means = {"none": 0.70, "learned-1d": 0.70, "cpe": 0.705, "rope-2d": 0.72}
    rows = [(kind, s, means[kind] + wave[s - i]) for i, (kind, of) in enumerate(seeds.items()) for s in of]
    frame = pd.DataFrame(rows, columns=["kind", "seed", "acc"])
    findings = analysis.compare(frame, "acc", "kind", baseline="none").findings
    assert findings.all_best == ["rope-2d"] and findings.comparisons.ranks["cpe"][0] == 1
    best = answer(findings).partition("Best, or not shown to be worse than the best: ")[2].partition(";")[0]
    assert "learned-1d" in best and "rope-2d" in best and "cpe" not in best


def test_variants_that_are_not_tested_are_not_counted_among_those_that_can_be_the_best(tmp_path):
    kinds = {f"v{i}": 0.70 for i in range(9)}
    options = {
        "levels": lambda variant: {"model.depth": 1 + int(variant[1:])},
        "factors": {"model.depth": [*range(1, 10)]},
    }
    findings = results_of(tmp_path, accuracy=kinds, spread=0.03, statuses=lost("absent", "v8", range(1, 5)), **options)
    assert findings.comparisons.untested == ["v8"] and "tested: 8 of 8 variants (best mean: v2)" in answer(findings)


def test_a_variant_that_lost_its_runs_makes_no_interval_of_the_others_narrower(tmp_path):
    kinds, statuses = {**KINDS, "relative": 0.80}, {"whole": {}, "rest": lost("absent", "relative", range(1, 5))}
    for name, of in statuses.items():
        one = results_of(tmp_path / name, accuracy=kinds, statuses=of).comparisons.pairs["cpe", "none"]
        assert one.p_adjusted == pytest.approx(6 * one.p)
