"""Two studies as one: which runs are compared, and which studies cannot be."""

import pytest
from synthetic import on_dataset, write_study

from analysis.runs.folder import read_folder
from analysis.runs.joined import joined
from experiments.errors import UserError


def study(folder, **options):
    return read_folder(write_study(folder, **options))


def test_it_has_the_runs_of_variants_and_seeds_that_both_have(tmp_path):
    old = study(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, baseline="cpe", seeds=3)
    new = study(tmp_path / "b", accuracy={"none": 0.6, "rope-2d": 0.7, "cpe": 0.8}, margin=0.02, seeds=5, epochs=2)
    both = joined({"old": old, "new": new}, "vit-report compare a b")
    expected = [
        (f"{name}: {variant}", seed) for name in ("old", "new") for variant in ("cpe", "none") for seed in range(3)
    ]
    assert sorted(zip(both.runs["variant"], both.runs["seed"])) == sorted(expected)
    for name, own in (("old", old), ("new", new)):
        for column in ("test/acc", "digest"):
            values = own.runs.set_index(["variant", "seed"])[column]
            runs = both.runs[both.runs["study"] == name]
            assert [values[key] for key in zip(runs["variant of both"], runs["seed"])] == list(runs[column])
    assert (both.baseline, both.margin, both.plan.looks) == ("old: cpe", old.margin, [])
    assert set(both.curves["run"]) == set(both.runs["run"])
    assert (both.curves["run"].str.startswith("new: ")).sum() == 2 * 3 * 2


def test_studies_without_a_common_variant_seed_or_metric_are_refused(tmp_path):
    a = study(tmp_path / "a", seeds=3)
    others = {
        "share no variant": {"accuracy": {"rope-2d": 0.9, "alibi-2d": 0.8}, "seeds": 3},
        "measures test/acc, position measures val/loss": {"metric": "val/loss", "seeds": 3},
    }
    for at, (reason, options) in enumerate(others.items()):
        with pytest.raises(UserError, match=f"^compare: position .*{reason}"):
            joined({"A": a, "B": study(tmp_path / str(at), **options)}, "")
    later = a.plan.model_copy(update={"seeds": [7, 8, 9]})
    moved = type(a)(later, a.runs.assign(seed=a.runs["seed"] + 7), a.curves)
    with pytest.raises(UserError, match="^compare: position and position share no seed: they have .* and 7, 8, 9"):
        joined({"A": a, "B": moved}, "")
    elsewhere = study(tmp_path / "data", seeds=3, **on_dataset("mnist"))
    with pytest.raises(UserError, match="^compare: position is on digits, position on mnist; .*: vit-report across"):
        joined({"A": a, "B": elsewhere}, "")


def test_a_name_for_two_different_variants_is_refused(tmp_path):
    options = {"accuracy": {"2": 0.7, "4": 0.8}, "baseline": "2", "seeds": 3}
    depth = study(tmp_path / "a", levels=lambda v: {"model.depth": int(v)}, factors={"model.depth": [2, 4]}, **options)
    heads = study(
        tmp_path / "b", levels=lambda v: {"model.num_heads": int(v)}, factors={"model.num_heads": [2, 4]}, **options
    )
    with pytest.raises(
        UserError, match="^compare: the variant '[24]' has model.num_heads = 4 in one study .position. and 2 in"
    ):
        joined({"A": depth, "B": heads}, "")
