"""A tuning that is itself a study: the best level of each variant by the mean validation accuracy, and no test
image used.
"""

import json
import shutil

import commands
import pandas as pd
import pytest

from experiments.runs import record
from experiments.study import STUDY
from sweeps.tuning.tuned import read_tuned

BASE = {"data.train_limit": 200, "model.depth": 1, "model.embed_dim": 8, "model.num_heads": 2, "train.epochs": 1}
MINE = {"name": "mine", "factors": {"model.pool": ["cls", "gap"]}, "seeds": 2, "base": BASE}
RATES = [0.003, 0.03, 0.0003]
GRID = {
    "name": "rates",
    "factors": {"optim.lr": RATES, **MINE["factors"]},
    "extra": [{"model.pool": "gap", "optim.lr": 0.3}],
    "seeds": [7, 8],
    "base": BASE,
    "metric": "val/acc",
}
OPTIONS = ("--workers", 1, "--tracking", "off", "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the trained grid."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "rates.yaml").write_text(json.dumps(GRID))
    status, _, err = commands.run("vit-sweep", "run", folder / "rates.yaml", "--out", folder, *OPTIONS)
    assert status == 0, err
    return folder


@pytest.fixture
def run(vit_sweep, trained, tmp_path):
    """Run a study beside the grid."""
    shutil.copytree(trained / "rates", tmp_path / "rates")

    def sweep(study: dict, *words):
        path = tmp_path / f"{study['name']}.yaml"
        path.write_text(json.dumps(study))
        return vit_sweep("run", path, "--out", tmp_path, *OPTIONS, *words)

    return sweep


def records(folder) -> pd.DataFrame:
    """The pooling, the rate and the metrics of each run in a study's folder."""
    rows = []
    for path in folder.glob(f"*/{record.SUMMARY}"):
        config = json.loads((path.parent / record.CONFIG).read_text())
        rows.append({"pool": config["model"]["pool"], "lr": config["optim"]["lr"], **json.loads(path.read_text())})
    return pd.DataFrame(rows)


def test_each_variant_is_trained_with_the_rate_that_is_best_on_validation_images(run, tmp_path):
    tried = records(tmp_path / "rates")
    assert len(tried) == 14 and tried["test/acc"].isna().all()
    status, _, err = run(MINE, "--tuned", tmp_path / "rates")
    assert status == 0, err
    means = tried.groupby(["pool", "lr"])[["val/acc", "val/loss"]].mean()
    best = (means["val/acc"] - 1e-6 * means["val/loss"]).unstack().idxmax(axis=1)  # the loss decides between equals
    trained = records(tmp_path / "mine")
    assert (
        len(trained) == 4 and (trained["lr"] == trained["pool"].map(best)).all() and trained["test/acc"].notna().all()
    )
    tuned = read_tuned(tmp_path / "mine" / STUDY)
    assert tuned.space["optim.lr"].ends == (0.0003, 0.3)  # `extra` counts
    assert {trial.variant: trial.seeds for trial in tuned.trials} == {"cls": {7, 8}, "gap": {7, 8}}


def test_a_study_that_cannot_choose_is_refused_in_one_line(run, tmp_path, scripted):
    scripted()
    other = {"name": "other", "metric": "test/acc", "seeds": [7], "factors": {"optim.lr": [0.003], **MINE["factors"]}}
    run(GRID | other | {"extra": []})

    def refused(said: str, tried: str = "rates", **changes):
        status, _, err = run(MINE | changes, "--tuned", tmp_path / tried)
        assert status == 2 and said in err and err.count("\n") == 1, err

    refused("expected the folder of a study of val/acc", tried="other")
    refused("has no runs of 'map'", factors={"model.pool": ["cls", "gap", "map"]})
    refused("of the variants of mine", factors={"model.mlp_ratio": [1.0, 2.0]})
    refused("with further factors", factors=GRID["factors"])
    refused("seed 7 was used for tuning", seeds=[7])
    next(iter((tmp_path / "rates").glob(f"*/{record.SUMMARY}"))).unlink()
    refused("has runs that have not finished")
    assert not (tmp_path / "mine").exists()
