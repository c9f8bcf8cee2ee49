"""Expected accuracies on the probes beside the measured ones. The expected figures are counted by hand."""

import pandas as pd
import pytest

from analysis.claims.theory import derived
from analysis.report.sections.claims import probe_columns
from analysis.results.means import Means
from analysis.stats import Estimate
from experiments.config import RunConfig, override
from experiments.metric import Metric

METRIC = Metric("test/acc")


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
