"""Expected accuracies on the probes beside the measured ones. The expected figures are counted by hand."""

import pytest
from report_tables import main_table, texts
from synthetic import write_study

from analysis.report.study_report import summary
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder


def table_of(tmp_path, accuracy, data="probe-where", spread=0.0, **more):
    settings = {"data.name": data, "model.patch_size": 2, "model.depth": 2, **more}
    folder = write_study(
        tmp_path, accuracy=accuracy, spread=spread, levels=lambda kind: {"model.pos_embed": kind, **settings}
    )
    return main_table(analyze(read_folder(folder)))


def shown(table, variant):
    row = next(row for row in texts(table) if row["variant"] == variant)
    return tuple(row[label] for label in ("expected, %", "measured"))


@pytest.mark.parametrize(
    ("data", "kind", "measured", "figures", "outcome"),
    [
        ("probe-where", "none", 1 / 16, "6.25", "as expected"),
        ("probe-where", "none", 0.09, "6.25", "higher"),  # three standard errors of 960 images are 2.3 points
        ("probe-where", "none", 0.08, "6.25", "as expected"),
        ("probe-where", "learned-1d", 1.0, "100", "as expected"),
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
def test_measured_and_expected_accuracy(data, kind, measured, figures, outcome, tmp_path):
    table = table_of(tmp_path, {"none": 0.5, kind: measured} if kind != "none" else {kind: measured}, data)
    assert shown(table, kind) == (figures, outcome)


def test_the_csv_has_the_figures_in_full(tmp_path):
    row = table_of(tmp_path, {"none": 1 / 16, "alibi-2d": 0.18}).data.iloc[1]
    known = [float(row[f"derived_{part}"]) for part in ("chance", "alone", "border")]
    assert known == [1 / 16, 1 / 16, 3 / 16]
    assert row["as_derived"] == "as derived"


def test_too_shallow_models_have_no_expected_accuracy(tmp_path):
    table = table_of(tmp_path, {"none": 0.1, "cpe": 0.2}, **{"model.depth": 1})
    assert "derived_alone" not in table.data
    table = table_of(tmp_path / "gap", {"none": 0.1, "cpe": 0.2}, **{"model.depth": 1, "model.pool": "gap"})
    assert shown(table, "cpe") == ("6.25 to 100", "as expected")


def test_other_images_have_no_expected_accuracy(tmp_path):
    table = table_of(tmp_path, {"none": 0.7, "cpe": 0.9}, data="digits")
    assert "derived_alone" not in table.data


def test_a_probe_has_no_published_figures(tmp_path):
    table = table_of(tmp_path, {"none": 1 / 16, "learned-1d": 1.0, "relative": 0.9})
    assert "derived_alone" in table.data


def test_without_a_prefix_token_rope_encodes_no_absolute_position(tmp_path):
    bare = {"model.pool": "gap", "model.class_token": False}
    assert shown(table_of(tmp_path, {"none": 1 / 16, "rope-2d": 0.5}, **bare), "rope-2d") == (
        "6.25 to 100",
        "as expected",
    )


@pytest.mark.parametrize("changes", [{"data.shuffle_patches": True}, {"model.stem": "conv"}])
def test_models_that_the_derivation_does_not_cover_have_no_expected_accuracy(tmp_path, changes):
    """Shuffled patches have no position, and with a convolutional stem a token sees its neighbours' pixels."""
    table = table_of(tmp_path, {"none": 1 / 16, "learned-1d": 1 / 16}, **changes)
    assert "derived_alone" not in table.data


def test_a_variant_whose_first_run_is_missing_is_still_compared(tmp_path):
    levels = lambda kind: {"model.pos_embed": kind, "data.name": "probe-where", "model.patch_size": 2, "model.depth": 2}  # noqa: E731
    folder = write_study(
        tmp_path, accuracy={"none": 1 / 16, "cpe": 0.9}, levels=levels, statuses={("cpe", 0): "incomplete"}
    )
    assert shown(main_table(analyze(read_folder(folder))), "cpe") == ("6.25 to 100", "as expected")


def test_a_study_of_several_probes_names_each_chance_level(tmp_path):
    probes = ["probe-where", "probe-direction"]
    folder = write_study(
        tmp_path,
        accuracy=dict.fromkeys(probes, 1.0),
        spread=0.0,
        factors={"data.name": probes},
        levels=lambda probe: {"data.name": probe, "model.pos_embed": "learned-1d", "model.patch_size": 2},
    )
    found = analyze(read_folder(folder))
    table = main_table(found)
    assert [shown(table, probe) for probe in probes] == [("100", "as expected")] * 2
    assert any("Chance is 6.25 % and 25 %, depending on the probe." in note for note in table.notes)
    assert "on digits" not in summary(found) and "on probe" not in summary(found)
