"""The reference results in this repository: every study can be read, and nothing in it was changed after its export."""

from pathlib import Path

import pytest

from analysis.sources.read import read

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"
RUNS = {
    "bfloat16/positions": 90,
    "bfloat16/table-8": 80,
    "digits/controls": 90,
    "digits/position": 20,
    "digits/positions": 90,
    "lodha-cifar10": 5,
    "mnist-small/pool-x-lr": 50,
    "mnist-small/positions": 90,
    "mnist-small/registers": 30,
    "mnist-small/stem-x-kind": 60,
    "mnist-small/stem-x-lr": 40,
    "mnist-small/table-8": 80,
    "mnist-small/table-8-lengths": 40,
    "mnist-small/table-8-sizes": 120,
    "owen-cifar10": 3,
    "probes/frozen-random-heard": 15,
    "probes/probe-arrow": 54,
    "probes/probe-direction": 55,
    "probes/probe-distance": 55,
    "probes/probe-where": 55,
    "pulfer-mnist/head": 10,
    "table-8-cifar10": 40,
    "tintn-cifar10": 5,
}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_reference_study_is_complete_and_unchanged(name):
    study = read(str(REFERENCE / name))
    assert len(study.runs) == RUNS[name] and set(study.runs["status"]) == {"finished"} and not study.troubles
    assert study.runs["digest"].str.fullmatch("[0-9a-f]{64}").all() and study.runs["commit"].notna().all()
    epochs = study.curves.groupby("run")["epoch"].max()
    assert study.runs.set_index("run")["epochs"].sort_index().tolist() == epochs.sort_index().tolist()
    if name == "digits/position":
        means = study.runs.groupby("variant")["test/acc"].mean()
        assert means["none"] == pytest.approx(0.7244, abs=5e-5)  # the README's 72.4 %


@pytest.mark.parametrize(
    "name",
    [
        "bfloat16/positions",
        "bfloat16/table-8",
        "digits/controls",
        "digits/position",
        "digits/positions",
        "mnist-small/pool-x-lr",
        "mnist-small/positions",
        "mnist-small/registers",
        "mnist-small/stem-x-kind",
        "mnist-small/stem-x-lr",
        "mnist-small/table-8-lengths",
        "mnist-small/table-8-sizes",
        "owen-cifar10",
        "probes/probe-arrow",
        "table-8-cifar10",
    ],
)
def test_hits_are_the_test_accuracies(name):
    study = read(str(REFERENCE / name))
    accuracies = {run: hits.hits.mean() for run, hits in study.hits.items()}
    assert accuracies == pytest.approx(study.runs.set_index("run")["test/acc"].to_dict(), abs=1e-12)
    assert sum(path.stat().st_size for path in (REFERENCE / name).iterdir()) < 1_000_000


def test_no_reference_study_is_left_out():
    assert {path.parent.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("study.json")} == set(RUNS)
