"""Factors: the tables against a case by hand, and what the answer says of effects and interactions."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from simulation import factorial as effects_of
from synthetic import write_factorial

from analysis.findings import analyze
from analysis.questions.factors import _largest, factor_tables, question, untested
from analysis.runs.folder import read_folder


def factorial(tmp_path, *accuracies, **options):
    return analyze(read_folder(write_factorial(tmp_path, *accuracies, **options)))


def test_tables_against_a_case_by_hand(tmp_path):
    # cells 80 70 / 90 75 without scatter: rows 75 and 82.5, columns 85 and 72.5, interaction +-1.25
    findings = factorial(tmp_path, spread=1e-7)
    tables = factor_tables(findings)
    contrasts, interactions = (table.data for table in tables)
    assert interactions["effect"].tolist() == pytest.approx([-0.0125, 0.0125, 0.0125, -0.0125], abs=1e-5)
    assert contrasts[["factor", "level", "reference"]].to_numpy().tolist() == [
        ["model.head", "softmax", "logits"],  # the larger one first
        ["model.depth", "2", "1"],
    ]
    assert contrasts["diff"].tolist() == pytest.approx([-0.125, 0.075], abs=1e-5)
    assert {row[0].text for row in tables[1].shown().rows} == {"depth × head"}
    names = [item.name for item in question(findings).items]
    assert names == ["contrasts", "main-effects", "grid", "interactions"]


def test_effects_and_interactions_that_are_shown_have_their_differences(tmp_path):
    """At depth 1 the heads differ by 10 points, at depth 2 by 20; depth matters with logits only."""
    findings = factorial(tmp_path, (0.80, 0.70, 0.90, 0.70))
    (main,), (interactions,) = question(findings).answer, question(findings).paragraphs
    assert main.endswith("; the effect of depth depends on head.")
    assert main.startswith("Main effects on test accuracy: ") and "undecided" not in main
    depth, head = re.search(
        r"depth 1 → 2 (\S+) points.*, head logits → softmax (\S+) points", main.replace("−", "-")
    ).groups()
    model = findings.factors.model
    assert [float(depth), float(head)] == pytest.approx(
        [100 * effect.alone.value for effect in model.contrasts], abs=0.06
    )
    only = "so its main effect is only an average over different effects."
    assert interactions == f"The effect of depth depends on head, {only}"
    for effect in model.contrasts:  # pairs and factors share alpha, and there are three terms
        assert effect.p_adjusted == pytest.approx(min(2 * 3 * effect.p, 1))


def test_the_interval_of_an_effect_is_the_one_of_which_its_verdict_is_read(tmp_path):
    """That of the effect of depth alone would leave zero out."""
    findings = factorial(tmp_path, (0.80, 0.80, 0.808, 0.808), spread=0.01)
    (main,), (interactions,) = question(findings).answer, question(findings).paragraphs
    undecided = (
        r"Main effects on test accuracy, undecided: depth 1 → 2 .*?CI (\S+) to (\S+?)\).*, head logits → softmax "
    )
    low, high = re.match(undecided, main).groups()
    effect = findings.factors.model.contrasts[0]
    assert effect.alone.low > 0 and float(low.replace("−", "-")) < 0
    assert float(high) == pytest.approx(100 * effect.adjusted.high, abs=0.06)
    assert interactions == "No interaction is shown: depth and head."
    for table in factor_tables(findings):
        if adjusted := [name for name in table.data if name.endswith("p_adjusted")]:
            shown = [row[-1].text for row in table.shown().rows]
            assert shown == [f"{p:.3f}" for p in table.data[adjusted[0]]]
            assert set(table.data["verdict"]) == {"not shown"}
        if "adjusted_low" in table.data:  # the interval that is shown is the one of which the verdict is read
            assert (table.data["adjusted_low"] < 0).all() and (table.data["adjusted_high"] > 0).all()


def test_the_largest_of_the_differences_that_are_shown_is_named():
    """`c` has the best mean and scatters widely; only `b` is shown to be better than `a`."""
    noise, mean = {"a": 0.001, "b": 0.001, "c": 0.1}, {"a": 0.7, "b": 0.74, "c": 0.76}
    levels = [{"kind": kind, "depth": depth} for kind in mean for depth in (1, 2)]
    frame = pd.DataFrame(
        {**level, "seed": seed, "test/acc": mean[level["kind"]] + noise[level["kind"]] * np.cos(2 * seed + i)}
        for i, level in enumerate(levels)
        for seed in range(5)
    )

    def largest(frame):
        model = effects_of(frame, ["kind", "depth"], "test/acc")
        variants = SimpleNamespace(factors={"kind": "kind", "depth": "depth"})
        return model, _largest(SimpleNamespace(factors=SimpleNamespace(model=model), variants=variants))[0]

    _, effect = largest(frame)
    means = frame.groupby(["seed", "kind"])["test/acc"].mean().unstack()
    assert means.mean().idxmax() == "c"
    diffs = means["b"] - means["a"]
    interval = scipy_stats.t.interval(0.95, 4, diffs.mean(), scipy_stats.sem(diffs))
    assert (effect.level, effect.reference, effect.verdict) == ("b", "a", "shown")
    assert (effect.alone.low, effect.alone.high) == pytest.approx(interval)
    assert effect.alone.value == pytest.approx(diffs.mean())
    none_shown, other = largest(frame[frame["seed"] < 2])
    assert {one.verdict for one in none_shown.contrasts} == {"not shown"}
    assert (other.level, other.reference) == ("c", "a")
    assert other.alone.value == pytest.approx((means["c"] - means["a"])[:2].mean())


@pytest.mark.parametrize("status", ["diverged", "pruned"])
def test_left_out_seeds_and_what_depends_on_failed_runs_are_named(status, tmp_path):
    """By hand: with three runs of depth 2 at 10 %, the chance level, depth 2 is no longer better by 10 points."""
    lost = {("depth=2, head=logits", seed): status for seed in range(3)}
    findings = factorial(tmp_path, (0.80, 0.80, 0.90, 0.90), seeds=6, statuses=lost)
    main, left_out, sensitive = question(findings).answer[0].split("; ")
    assert main.startswith("Main effects on test accuracy, undecided: depth 1 → 2 ")
    assert left_out == "seeds left out for lack of a finished run in some combination: 0, 1, 2"
    assert sensitive == "shown by the finished runs alone, but not with failed runs counted at chance level: depth."


HEADS = ("logits", "softmax")


@pytest.mark.parametrize(
    ("lost", "status", "reason", "cells"),
    [
        (
            {("depth=2, head=softmax", seed) for seed in range(5)},
            "absent",
            "fewer than half of the seeds have a finished run of model.depth = 2, model.head = softmax",
            3,
        ),
        (
            {(f"depth=2, head={head}", seed) for head in HEADS for seed in range(5)},
            "diverged",
            "a finished run of model.depth = 2, model.head = logits; model.depth = 2, model.head = softmax",
            0,
        ),
        ({(f"depth={d}, head={head}", s) for d in (1, 2) for head in HEADS for s in range(5)}, "diverged", "", 0),
    ],
    ids=["a cell", "a level", "all"],
)
def test_an_incomplete_grid_is_not_tested_and_a_heat_map_shows_its_means(lost, status, reason, cells, tmp_path):
    findings = factorial(tmp_path, statuses=dict.fromkeys(lost, status))
    section = untested(findings)
    assert question(findings) is None and section.answer == section.paragraphs
    (said,) = section.answer
    assert said.startswith("Factors and interactions are not tested: ") and reason in said
    means = {f"{100 * findings.means.of(variant).value:.1f}" for variant in findings.variants.names[:cells]}
    drawn = [label.get_text() for item in section.items for label in item.figure.axes[0].texts]
    assert set(drawn) == means and len(section.items) == bool(cells)
