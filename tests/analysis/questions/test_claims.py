"""Published claims: which evidence is shown, with which numbers, and when claims are left out."""

import re
from itertools import combinations

import numpy as np
import pytest
import study_file
from synthetic import results_of

from analysis.claims.check import check
from analysis.claims.claim import Evidence
from analysis.claims.literature import published_claims
from analysis.questions.claims import evidence, question
from analysis.verdicts import Rule
from analysis.verdicts.comparisons import compare
from experiments.presets import preset

NOISE = np.array([0.0010, -0.0004, 0.0007, -0.0011, -0.0002, 0.0005, -0.0008, 0.0003, 0.0004, -0.0004])
KINDS = {"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951}


def claims(means: dict[str, float], n: int = 5, **options):
    """Every claim that a study of kinds with these accuracies tests, by its id."""
    runs = {kind: dict(enumerate(mean + np.roll(NOISE, 3 * i)[:n])) for i, (kind, mean) in enumerate(means.items())}
    plan = study_file.plan({kind: {"model.pos_embed": kind} for kind in means}, **options)
    rule = Rule(plan.margin, variance="paired")
    found = Evidence(plan, runs, compare(runs, list(combinations(runs, 2)), rule), rule)
    return {result.claim.id: result for result in check(published_claims(), found)}


def test_the_evidence_for_a_claim_that_holds():
    result = claims(KINDS)["paper-none"]
    a, b = result.decisive.variants
    low, high = (f"+{100 * bound:.2f}" for bound in (result.estimate.low, result.estimate.high))
    assert result.estimate.low > 0.01
    assert evidence(result) == (
        f"Shown for 2 of 2 pairs. Weakest evidence: {a} − {b}: +{100 * result.estimate.value:.2f} points "
        f"(interval [{low}, {high}], 5 seeds); the claim says more than 1 point."
    )


@pytest.mark.parametrize(
    ("means", "options", "claim", "said", "not_said"),
    [
        ({"learned-1d": 0.9, "learned-2d": 0.95}, {}, "paper-kinds", "the claim says within ±1 point.", "of 1 pairs"),
        ({"none": 0.9, "learned-1d": 0.95, "cpe": 0.901}, {}, "any-none", "opposite is shown for 1 of 2", "Not"),
        ({"none": 0.7, "learned-1d": 0.9}, {"n": 1}, "paper-none", "not tested (1 seed).", "Not"),
    ],
)
def test_which_evidence_is_shown(means, options, claim, said, not_said):
    shown = evidence(claims(means, **options)[claim])
    assert said in shown and not_said not in shown


def test_a_published_system_alone_is_compared_with_its_figure(tmp_path):
    base = preset("pulfer-mnist").model_dump()
    options = {"name": "pulfer-mnist", "preset": "pulfer-mnist", "base": base, "accuracy": {"sinusoidal": 0.788}}
    section = question(results_of(tmp_path, **options, spread=1e-4, seeds=4))
    (claim,) = section.answer
    assert re.match(r"Published claim: .*78\.85 %.* Holds here: sinusoidal − the published 78\.85 %", claim)
    assert any("comes from a single run" in note for note in section.items[0].notes)


def test_a_published_figure_does_not_hold_on_the_surviving_runs_alone(tmp_path):
    """One of five runs diverged, and counts as one at 10 %."""
    base = preset("pulfer-mnist").model_dump()
    options = {"name": "pulfer-mnist", "preset": "pulfer-mnist", "base": base, "accuracy": {"sinusoidal": 0.788}}
    lost = {("sinusoidal", 2): "diverged"}
    (claim,) = question(results_of(tmp_path, **options, spread=1e-4, seeds=5, statuses=lost)).answer
    assert "Undecided here: sinusoidal" in claim


def test_the_pairs_of_a_claim_that_are_not_tested_are_counted(tmp_path):
    """learned-2d has one run; the other kind is much better than none."""
    lost = {("learned-2d", seed): "absent" for seed in range(1, 5)}
    (table,) = question(results_of(tmp_path, accuracy=KINDS, statuses=lost)).items
    said = dict(zip(table.data["id"], table.data["evidence"]))["paper-none"]
    assert said == "Not tested: 1 of 2 pairs. learned-2d − none: not tested (1 seed)."


def test_the_table_has_every_claim_of_the_study_and_how_its_runs_were_trained(tmp_path):
    section = question(results_of(tmp_path, accuracy=KINDS, seeds=10))
    (table,), expected = section.items, claims(KINDS)
    assert set(table.data["id"]) == set(expected) and not section.answer  # the answer is about its variants
    outcomes = dict(zip(table.data["id"], table.data["verdict"]))
    assert (outcomes["paper-none"], outcomes["paper-kinds"]) == ("holds here", "holds here")
    assert table.caption.endswith("the outcome in this study: rate 0.001, 4 epochs, one rate for all.")


@pytest.mark.parametrize(
    "options",
    [
        *({"looks": [10, 20]}, {"metric": "test/loss", "margin": 0.05}),
        *({"accuracy": dict.fromkeys(KINDS, level), "spread": 0.0001} for level in (0.1, 1.0)),
    ],
    ids=["before the first look", "a loss", "near chance", "at the ceiling"],
)
def test_some_studies_test_no_claim(options, tmp_path):
    assert question(results_of(tmp_path, **{"accuracy": KINDS, **options})) is None
