"""Studies that hold the same runs are one piece of evidence."""

import pytest
from synthetic import write_study

from analysis.outputs.pooled import independent_groups
from analysis.runs.read import read

KINDS = {"none": 0.7, "learned-1d": 0.9}


def study(folder, accuracy=KINDS, seeds=(0, 1), **settings):
    """A study of these kinds, whose runs have these seeds and settings."""
    absent = {(kind, seed): "absent" for kind in accuracy for seed in range(4) if seed not in seeds}
    levels = {"levels": lambda kind: {"model.pos_embed": kind, **settings}}
    return read(str(write_study(folder, accuracy=accuracy, seeds=4, statuses=absent, **levels)))


@pytest.mark.parametrize(
    ("other", "groups"),
    [
        ({}, 1),
        ({"train.precision": "bfloat16"}, 1),  # only rounding differs
        ({"eval.max_shift": 2}, 1),
        ({"model.pos_site": "stem"}, 1),  # the natural site of these kinds
        ({"seeds": (1, 2)}, 1),
        ({"optim.lr": 0.1}, 2),
        ({"seeds": (2, 3)}, 2),
        ({"accuracy": {"learned-2d": 0.9, "cpe": 0.9}}, 2),  # other variants
    ],
    ids=str,
)
def test_studies_share_a_run_where_settings_and_seed_are_equal(tmp_path, other, groups):
    studies = {"a": study(tmp_path / "a"), "b": study(tmp_path / "b", **other)}
    found = independent_groups(studies)
    assert len(found) == groups and sorted(name for names in found for name in names) == ["a", "b"]


def test_a_study_that_shares_runs_with_two_others_joins_them(tmp_path):
    seeds = {"a": (0, 1), "b": (2, 3), "c": (1, 2)}
    studies = {name: study(tmp_path / name, seeds=own) for name, own in seeds.items()}
    assert [sorted(names) for names in independent_groups(studies)] == [["a", "b", "c"]]
