"""Published claims and the paper's table: which sentence of evidence is shown, and the numbers in it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import study_file
from report_tables import texts

from analysis.claims.check import check
from analysis.claims.literature import PAPER_TABLE_8, paper_places, published_claims
from analysis.report.sections.claims import claims_table, evidence, paper_table
from analysis.results.comparisons import Comparisons
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import Estimate
from experiments.metric import Metric
from experiments.presets import preset

NOISE = np.array([0.0010, -0.0004, 0.0007, -0.0011, -0.0002, 0.0005, -0.0008, 0.0003, 0.0004, -0.0004])
METRIC = Metric("test/acc")
VARIANTS = Variants(["none", "learned-1d"], "none", METRIC, 0.01, {}, {}, None)
POLICY = Policy(METRIC, 0.01, 0.0, {})


def claims(means: dict[str, float], n: int = 5, spread: float = 1.0, **options):
    """Every claim that a study of kinds with these accuracies tests, by its id."""
    runs = {
        kind: dict(enumerate(mean + spread * np.roll(NOISE, 3 * i)[:n])) for i, (kind, mean) in enumerate(means.items())
    }
    plan = study_file.plan({kind: {"model.pos_embed": kind} for kind in means}, **options)
    return {result.claim.id: result for result in check(published_claims(), plan, runs)}


def table(results):
    return claims_table(results, VARIANTS, POLICY, tuned=False)


def test_the_evidence_for_a_claim_that_holds():
    result = claims({"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951})["paper-none"]
    a, b = result.decisive.variants
    low, high = (f"+{100 * bound:.2f}" for bound in (result.estimate.low, result.estimate.high))
    assert evidence(result) == (
        f"Shown for 2 of 2 pairs. Weakest evidence: {a} − {b}: +{100 * result.estimate.value:.2f} points "
        f"(90 % CI [{low}, {high}], 5 seeds); the claim says more than 1 point."
    )


@pytest.mark.parametrize(
    ("means", "options", "claim", "said", "not_said"),
    [
        ({"learned-1d": 0.9, "learned-2d": 0.95}, {}, "paper-kinds", "the claim says within ±1 point.", "of 1 pairs"),
        (
            {"none": 0.9, "learned-1d": 0.95, "learned-2d": 0.901},
            {},
            "paper-none",
            "opposite is shown for 1 of 2",
            "Not",
        ),
        ({"none": 0.7, "learned-1d": 0.9}, {"n": 1}, "paper-none", "1 seed, too few for a test.", "Not"),
    ],
)
def test_which_evidence_is_shown(means, options, claim, said, not_said):
    shown = evidence(claims(means, **options)[claim])
    assert said in shown and not_said not in shown


def test_a_published_figure_is_the_other_side_of_the_difference():
    base = preset("pulfer-mnist").model_dump(mode="json")
    (result,) = claims({"sinusoidal": 0.81}, n=10, spread=30, preset="pulfer-mnist", base=base).values()
    assert evidence(result).startswith("sinusoidal − the published 78.85 %: +")
    (note,) = [note for note in table([result]).notes if "single run" in note]
    assert "prediction interval" in note


def test_an_outcome_that_depends_on_diverged_runs_says_so():
    result = replace(claims({"none": 0.7, "learned-1d": 0.9})["paper-none"], outcome="undecided here")
    assert "It changes if diverged runs are counted at chance level." in evidence(result)


def test_the_tables_data_and_notes():
    results = list(claims({"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951}, n=10, spread=10).values())
    made = table(results)
    assert made.data["verdict"].tolist() == [result.outcome for result in results]
    assert made.data["more_seeds_low"].tolist() == [r.more_seeds and r.more_seeds.low for r in results]
    assert not any("planned looks" in note for note in made.notes)
    planned = claims_table(results, VARIANTS, replace(POLICY, plan=(5, 10)), tuned=False)
    assert any("They are adjusted for the planned looks only," in note for note in planned.notes)
    assert table([]) is None


# the paper's table

MEANS = {"none": 0.7, "1d": 0.95, "2d": 0.94}
KINDS = {"none": "none", "1d": "learned-1d", "2d": "learned-2d"}


def places(varied=("model.pos_embed",), metric="test/acc", **changed):
    settings = {v: {"model.pos_embed": kind, "model.pos_site": "stem"} | changed for v, kind in KINDS.items()}
    return paper_places(Metric(metric), varied, settings)


def test_the_papers_table_has_all_its_figures_and_this_studys():
    means = {variant: Estimate(mean, mean - 0.01, mean + 0.01, 5) for variant, mean in MEANS.items()}
    variants = replace(VARIANTS, names=list(MEANS))
    made = paper_table(places(), Means(METRIC, {}, {METRIC: means}), variants, Comparisons("none", {}, {}), POLICY)
    frame = made.data.set_index("kind")
    assert {(kind, site): frame.loc[kind, f"{site}_paper"] for kind, site in PAPER_TABLE_8} == PAPER_TABLE_8
    assert frame.loc["learned-2d", ["stem_ours", "stem_low", "stem_high", "stem_n"]].tolist() == pytest.approx(
        [0.94, 0.93, 0.95, 5]
    )
    assert math.isnan(frame.loc["relative", "stem_ours"])
    rows = texts(made)
    ours = [row["Default/Stem: this study, %"] for row in rows]
    assert ours == ["70.0 ± 1.0 (5)", "95.0 ± 1.0 (5)", "94.0 ± 1.0 (5)", "–"]
    assert rows[1]["Every Layer: paper, %"] == "63.96" and "Every Layer: this study, %" not in rows[1]


@pytest.mark.parametrize(
    "other", [{"varied": ["model.depth"]}, {"metric": "test/loss"}, {"model.pos_embed": "sinusoidal"}], ids=str
)
def test_other_studies_have_no_place_in_the_papers_table(other):
    assert places(**other) == {}
