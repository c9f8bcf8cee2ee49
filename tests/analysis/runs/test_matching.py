"""In which settings two studies of the same variants differ."""

from dataclasses import replace

from synthetic import write_study

from analysis.runs.folder import read_folder
from analysis.runs.joined import differing_settings
from experiments.config import RunConfig, override

VARIANTS = {"none": 0.7, "learned-1d": 0.8}


def differing(tmp_path, *settings):
    """What differs between two studies whose variants have these settings."""
    one, other = (
        read_folder(write_study(tmp_path / name, accuracy=VARIANTS, seeds=2, levels=levels))
        for name, levels in zip("ab", settings)
    )
    return differing_settings(one, other, VARIANTS)


def test_a_setting_has_its_values_in_the_order_of_the_variants(tmp_path):
    rates = {"none": 0.01, "learned-1d": 0.03}
    found = differing(
        tmp_path, lambda v: {"model.pos_embed": v}, lambda v: {"model.pos_embed": v, "optim.lr": rates[v]}
    )
    assert found == [("optim.lr", f"{RunConfig().optim.lr:g}", "0.01, 0.03")]


def test_factors_and_places_are_no_difference_but_the_folder_of_an_image_folder_is(tmp_path):
    def at(root, **more):
        return lambda v: {"model.pos_embed": v, "data.root": root, **more}

    assert differing(tmp_path / "one", at("/a"), at("/b")) == []
    folder = {"data.name": "imagefolder"}
    assert differing(tmp_path / "two", at("/a", **folder), at("/b", **folder)) == [("data.root", "/a", "/b")]


def test_what_only_one_study_records_is_not_compared_and_images_are(tmp_path):
    study = read_folder(write_study(tmp_path, accuracy=VARIANTS, seeds=2))
    deeper = override(RunConfig(), {"model.depth": 9}).model.depth
    less = replace(study, runs=study.runs.drop(columns="model.depth"))
    more = replace(study, runs=study.runs.assign(**{"model.depth": deeper, "train_images": 2000.0}))
    assert differing_settings(less, more, VARIANTS) == [("train_images", "1293", "2000")]
