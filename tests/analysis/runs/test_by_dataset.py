"""A study with the dataset among its factors becomes one study for each dataset."""

import pytest
from synthetic import write_by_dataset, write_study

from analysis.runs.by_dataset import split_by_dataset
from analysis.runs.folder import read_folder
from experiments.errors import UserError


def test_a_study_with_the_dataset_as_a_factor_becomes_one_study_for_each_dataset(tmp_path):
    digits, mnist = split_by_dataset(read_folder(write_by_dataset(tmp_path)))
    assert [part.base["data.name"] for part in (digits, mnist)] == ["digits", "mnist"]
    assert digits.variants == mnist.variants == ["none", "cpe"] and digits.baseline == mnist.baseline == "none"
    assert list(digits.factors) == ["model.pos_embed"]
    assert len(digits.runs) == len(mnist.runs) == 10 and set(digits.curves["variant"]) == {"none", "cpe"}
    assert mnist.runs.groupby("variant")["test/acc"].mean().to_dict() == pytest.approx(
        {"none": 0.8, "cpe": 0.9}, abs=0.01
    )


def test_a_dataset_that_differs_without_being_a_factor_is_refused(tmp_path):
    levels = lambda variant: {"model.pos_embed": variant, "data.name": "mnist" if variant == "cpe" else "digits"}  # noqa: E731
    folder = write_study(tmp_path, accuracy={"none": 0.5, "cpe": 0.9}, levels=levels)
    with pytest.raises(
        UserError, match=r"several datasets \(digits, mnist\), which are no factor; .* vit-report across"
    ):
        split_by_dataset(read_folder(folder))
