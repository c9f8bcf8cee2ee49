"""Published claims, the paper's table and the expected accuracies on the probes: which sentence is shown, and the
numbers.
"""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import shown as shown_table
import study_file

from analysis.answers.published.show import claims_table, evidence, paper_table, probe_columns
from analysis.claims.check import check
from analysis.claims.claim import Evidence
from analysis.claims.literature import PAPER_TABLE_8, paper_places, published_claims
from analysis.claims.theory import derived
from analysis.findings.means import Means
from analysis.findings.policy import Comparisons, Policy
from analysis.findings.variants import Variants
from analysis.stats import Estimate, Rule
from analysis.stats.comparisons import compare
from experiments.config import RunConfig, override
from experiments.metric import Metric

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
    rule = Rule(plan.margin, variance="paired")
    found = Evidence(plan, runs, compare(runs, list(combinations(runs, 2)), rule), rule)
    return {result.claim.id: result for result in check(published_claims(), found)}


def table(results):
    return claims_table(results, VARIANTS, POLICY, tuned=False, training="rate 0.005")


def test_the_evidence_for_a_claim_that_holds():
    result = claims({"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951})["paper-none"]
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
        ({"none": 0.7, "learned-1d": 0.9}, {"n": 1}, "paper-none", "no interval (1 seed).", "Not"),
    ],
)
def test_which_evidence_is_shown(means, options, claim, said, not_said):
    shown = evidence(claims(means, **options)[claim])
    assert said in shown and not_said not in shown


def test_the_tables_data_and_notes():
    results = list(claims({"none": 0.72, "learned-1d": 0.95, "learned-2d": 0.951}, n=10, spread=10).values())
    made = table(results)
    assert made.data["verdict"].tolist() == [result.outcome for result in results]
    assert not any("planned looks" in note for note in made.notes)
    assert made.caption.endswith("the outcome in this study: rate 0.005.")
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
    rows = shown_table.rows(made)
    ours = [row["Default/Stem: this study, %"] for row in rows]
    assert ours == ["70.0 ± 1.0 (5)", "95.0 ± 1.0 (5)", "94.0 ± 1.0 (5)", "–"]
    assert rows[1]["Every Layer: paper, %"] == "63.96" and "Every Layer: this study, %" not in rows[1]


@pytest.mark.parametrize(
    "other", [{"varied": ["model.depth"]}, {"metric": "test/loss"}, {"model.pos_embed": "sinusoidal"}], ids=str
)
def test_other_studies_have_no_place_in_the_papers_table(other):
    assert places(**other) == {}


# expected accuracies on the probes, counted by hand


def settings(*kinds, data="probe-where", **changed) -> pd.DataFrame:
    """The settings of a variant for each kind."""
    levels = {"data.name": data, "model.patch_size": 2, "model.depth": 2, **changed}
    rows = {}
    for kind in kinds:
        config = override(RunConfig(), {"model.pos_embed": kind, **levels}).model_dump()
        rows[kind] = {
            f"{section}.{name}": config[section][name] for section in ("data", "model") for name in config[section]
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def shown(settings: pd.DataFrame, **measured):
    """The fields of each variant, and the notes."""
    means = {v: Estimate(measured.get(v.replace("-", "_"), 0.5), 0.0, 1.0, 5) for v in settings.index}
    return probe_columns(derived(METRIC, settings), Means(METRIC, {}, {METRIC: means}))


@pytest.mark.parametrize(
    ("data", "kind", "measured", "figures", "outcome"),
    [
        ("probe-where", "none", 1 / 16, "6.25", "as expected"),
        ("probe-where", "none", 0.09, "6.25", "higher"),  # three standard errors of 960 images are 2.3 points
        ("probe-where", "none", 0.08, "6.25", "as expected"),
        ("probe-where", "learned-1d", 0.951, "100", "as expected"),
        ("probe-where", "learned-1d", 0.949, "100", "lower"),  # what is certain has no sampling error
        ("probe-where", "alibi-2d", 0.18, "6.25 to 18.75", "as expected"),
        ("probe-where", "alibi-2d", 0.3, "6.25 to 18.75", "higher"),
        ("probe-where", "rope-2d", 0.5, "100", "lower"),  # its class token stands in the first cell
        ("probe-direction", "alibi-2d", 0.25, "25", "as expected"),
        ("probe-direction", "relative", 0.7, "66.67 to 100", "as expected"),
        ("probe-direction", "relative", 0.58, "66.67 to 100", "lower"),
        (
            "probe-direction",
            "relative",
            0.6,
            "66.67 to 100",
            "as expected",
        ),  # 95 % minus three standard errors is 0.588
        ("probe-where", "rel-bias-2d", 0.058, "6.25 to 100", "as expected"),  # blind, and unlucky
        ("probe-distance", "cpe", 0.9, "66.67 to 100", "as expected"),
    ],
)
def test_measured_and_expected_accuracy(data, kind, measured, figures, outcome):
    fields = shown(settings(kind, data=data), **{kind.replace("-", "_"): measured}).fields[kind]
    assert (fields["_derived"], fields["_as_derived"]) == (figures, outcome)


def test_the_csv_has_the_figures_in_full():
    fields = shown(settings("none", "alibi-2d"), alibi_2d=0.18).fields["alibi-2d"]
    assert [fields[f"derived_{part}"] for part in ("chance", "alone", "border")] == [1 / 16, 1 / 16, 3 / 16]
    assert fields["as_derived"] == "as derived"


@pytest.mark.parametrize(
    "changed",
    [
        {"data": "digits"},
        {"model.depth": 1},  # too shallow, unless patches are pooled
        {"data.shuffle_patches": True},  # shuffled patches have no position
        {"model.stem": "conv"},  # a token sees its neighbours' pixels
    ],
    ids=str,
)
def test_what_the_derivation_does_not_cover_has_no_expected_accuracy(changed):
    assert shown(settings("learned-1d", **changed)) is None


def test_other_metrics_have_no_expected_accuracy():
    assert derived("val/acc", settings("learned-1d")) == {}


def test_a_variant_that_the_derivation_does_not_cover_has_a_dash():
    both = pd.concat([settings("none"), settings("cpe", **{"model.stem": "conv"})])
    assert [shown(both).fields[kind]["_derived"] for kind in ("none", "cpe")] == ["6.25", "–"]


def test_pooled_patches_need_one_layer_and_no_prefix_token_encodes_a_position():
    bare = {"model.pool": "gap", "model.class_token": False}
    assert shown(settings("cpe", **bare, **{"model.depth": 1})).fields["cpe"]["_derived"] == "6.25 to 100"
    assert shown(settings("rope-2d", **bare)).fields["rope-2d"]["_derived"] == "6.25 to 100"


def test_the_note_names_each_chance_level():
    where, direction = settings("learned-1d"), settings("relative", data="probe-direction")
    assert "Chance by probe: 6.25 %, 25 %." in shown(pd.concat([where, direction])).notes[0]
