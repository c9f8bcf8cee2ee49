"""Runs without seeds: no order of the rows changes a number, and two variants have Welch's test."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import analysis
from analysis.report import study_sections
from analysis.write.table import Table
from experiments.errors import UserError

LR = np.tile([0.1, 0.2], 9)
KINDS = ["resnet", "vit", "mixer", "none"]


def runs(counts=(4, 4, 4, 6), failed=0, **columns):
    """A row for each run; the variants have so many. The last rows have no result."""
    rng = np.random.default_rng(7)
    rows = [(kind, 90 + i + rng.normal()) for i, (kind, n) in enumerate(zip(KINDS, counts)) for _ in range(n)]
    frame = pd.DataFrame(rows, columns=["method", "acc"]).assign(**columns)
    frame.loc[len(frame) - failed :, "acc"] = np.nan
    return frame


def compared(frame, factor="method", **options):
    return analysis.compare(frame, "acc", factor, **{"variance": "unpaired", "margin": 0.5, **options})


def tables(results):
    """Every number of the report: name of a table -> its CSV. The list of runs names rows of the file."""
    items = [item for section in study_sections(results.findings) for item in section.items if isinstance(item, Table)]
    return {table.name: table.csv() for table in items if table.name != "runs"}


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (runs(), {}),
        (runs((2, 3)), {}),
        (runs(failed=1), {}),
        (runs(failed=1).assign(lr=LR), {"factor": ["method", "lr"]}),
        (runs().assign(lr=LR), {"factor": ["method", "lr"], "baseline": "method=vit, lr=0.2"}),
        (pd.concat([runs(), runs((3, 3, 2), 1)]).assign(data=["a"] * 18 + ["b"] * 8), {"dataset": "data"}),
    ],
    ids=["one factor", "two variants", "failed", "two factors, failed", "two factors", "datasets"],
)
def test_no_order_of_the_rows_changes_the_answer_or_a_number(frame, options):
    found = []
    for order in range(5):
        results = compared(frame.sample(frac=1, random_state=order) if order else frame, **options)
        parts = getattr(results, "studies", {"": results})
        found.append((results.answer, results, {name: tables(part) for name, part in parts.items()}))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("counts", [(2, 2), (5, 3), (2, 9)])
def test_two_variants_have_the_test_of_welch_with_few_degrees_of_freedom(counts):
    """At most 2 (n - 1), n the smaller number of runs."""
    frame = runs(counts)
    a, b = (frame["acc"][frame["method"] == kind].to_numpy() for kind in KINDS[:2])
    one = compared(frame, baseline="resnet").findings.comparisons.versus["vit"]
    welch = scipy_stats.ttest_ind(b, a, equal_var=False)
    df, error = min(welch.df, 2 * (min(counts) - 1)), (b.mean() - a.mean()) / welch.statistic
    assert (one.p, one.diff.value) == pytest.approx(
        (2 * scipy_stats.t.sf(abs(welch.statistic), df), b.mean() - a.mean())
    )
    half = scipy_stats.t.ppf(0.975, df) * error
    assert (one.adjusted.low, one.adjusted.high) == pytest.approx((one.diff.value - half, one.diff.value + half))
    assert (one.runs, one.dropped) == (counts[::-1], 0)


def test_a_value_added_to_the_runs_at_one_place_of_each_variant_is_spread():
    """Seeds that lift all variants alike would be taken out; of unpaired runs, it makes intervals wider."""
    lifted = runs((4, 4, 4, 4))
    lifted["acc"] += 10 * (np.arange(16) % 4 == 0)
    seeded = lifted.assign(seed=np.arange(16) % 4)
    widths = [
        one.findings.comparisons.versus["vit"].adjusted
        for one in (compared(lifted), compared(seeded, variance="shared"), compared(runs((4, 4, 4, 4))))
    ]
    unpaired, paired, plain = (one.high - one.low for one in widths)
    assert unpaired > 5 * plain and paired < 2 * plain


@pytest.mark.parametrize(("rows", "reason"), [
    ({"a": [1.5, 2.5], "b": [3]}, "one run"), ({"a": [1.5, 2.5], "b": [3, None]}, "failed runs"),
    ({"a": [1.5, 2.5, 2], "b": [3, 4, None]}, "failed runs, chance level unknown"),
    ({"a": [1 / 3] * 2, "b": [1 / 3] * 3}, "no spread over the runs"),
])  # fmt: skip
def test_what_is_not_tested_says_why_in_runs(rows, reason):
    frame = pd.DataFrame(
        [(kind, value) for kind, values in rows.items() for value in values], columns=["method", "acc"]
    )
    results = compared(frame, margin=0.05)
    assert results.findings.comparisons.versus["b"].reason == reason and "seed" not in results.answer


def test_failed_runs_are_counted_on_both_sides():
    one = compared(runs((4, 3), failed=1), baseline="resnet").findings.comparisons.versus["vit"]
    assert (one.runs, one.dropped, one.n) == ((2, 4), 1, 2)


def test_effects_of_factors_are_weighted_sums_of_means():
    """Cells of two and three runs: by hand, the error of a main effect is sqrt(sum of s^2 / n) / 2, with an s^2 that is
    one part a cell's own and two parts the average of all, weighted by n - 1, but not less than its own.
    """
    cells = {("a", 1): [1, 2], ("a", 2): [4, 7], ("b", 1): [3, 3.5, 5], ("b", 2): [9, 8]}
    frame = pd.DataFrame([(*cell, y) for cell, ys in cells.items() for y in ys], columns=["method", "lr", "acc"])
    model = compared(frame, factor=["method", "lr"]).findings.factors.model
    own, sizes = np.array([[np.var(ys, ddof=1), len(ys)] for ys in cells.values()]).T
    parts = np.maximum(own, (own + 2 * np.average(own, weights=sizes - 1)) / 3) / sizes / 4
    error, df = math.sqrt(parts.sum()), min(parts.sum() ** 2 / (parts**2 / (3 * (sizes - 1))).sum(), 4 * (2 - 1))
    means = {cell: np.mean(ys) for cell, ys in cells.items()}
    effect = (means["b", 1] + means["b", 2] - means["a", 1] - means["a", 2]) / 2
    row = model.contrasts.set_index("factor").loc["method"]
    assert row["diff"].value == pytest.approx(effect)
    assert row["p"] == pytest.approx(2 * scipy_stats.t.sf(abs(effect) / error, df))
    half = scipy_stats.t.ppf(1 - 0.05 / 2 / 3 / 2, df) * error  # pairs and factors share 5 %; there are three terms
    assert row["adjusted"].high - row["diff"].value == pytest.approx(half)
    assert model.seeds == model.seeds_left_out == ()
    few = compared(frame[1:], factor=["method", "lr"]).findings.factors
    assert few.skipped_reason == "factors: fewer than two finished runs of method = a, lr = 1"


@pytest.mark.parametrize(
    ("frame", "flags"),
    [
        (runs(), ["--factor", "method"]),
        (runs((5, 3), 1), ["--factor", "method"]),
        (runs().assign(lr=LR), ["--factor", "method", "--factor", "lr"]),
        (runs(), ["--factor", "method", "--table", "t.md"]),
    ],
    ids=["one factor", "failed", "two factors", "table"],
)
def test_the_report_says_runs_and_how_errors_are_made(frame, flags, tmp_path, vit_report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("runs.csv", index=False)
    status, out, _ = vit_report("runs.csv", "--metric", "acc", *flags, "--unpaired", "--margin", "0.5")
    assert status == 0
    if "--table" in flags:
        assert "4 to 6 runs" in Path("t.md").read_text() and "seed" not in Path("t.md").read_text()
        return
    page, html = (Path("runs-acc-report", name).read_text() for name in ("report.md", "report.html"))
    text = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    assert not re.search("seed", out + page + text, re.IGNORECASE)
    assert "runs are not paired, and their order changes nothing" in page and "vit-report runs.csv" in page


def test_epochs_of_a_run_are_no_runs():
    frame = runs((6, 6), epoch=[1, 2, 3] * 4)
    with pytest.raises(
        UserError, match="every variant has rows of 3 values of epoch; add a column of seeds or of runs"
    ):
        compared(frame)
    assert len(compared(frame[frame["epoch"] == 3]).runs) == 4
    assert len(compared(runs((2, 2), epoch=[7, 9, 8, 7])).runs) == 4  # early stopping


def test_an_export_of_unpaired_runs_has_the_same_verdicts(tmp_path, vit_report):
    runs().to_csv(tmp_path / "runs.csv", index=False)
    flags = ["--metric", "acc", "--unpaired"]
    assert vit_report("export", tmp_path / "runs.csv", tmp_path / "exported", *flags)[0] == 0
    first, again = (
        analysis.read(tmp_path / "runs.csv", "acc", variance="unpaired"),
        analysis.read(tmp_path / "exported"),
    )
    assert tables(first) == tables(again)
