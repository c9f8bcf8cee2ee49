"""The reference results in this repository: every study can be read, and nothing in it was changed after its export."""

import page
import pytest
from page import REFERENCE, STUDIES

COUNTS = """
    bfloat16/positions 90, bfloat16/table-8 80, digits/controls 95, digits/position 20, digits/positions 90,
    kinds-cifar10 25, lodha-cifar10 5, mnist-small/depth 40, mnist-small/dropout 60, mnist-small/pool-x-lr 50,
    mnist-small/positions 90, mnist-small/registers 30, mnist-small/stem-x-kind 60, mnist-small/stem-x-lr 40,
    mnist-small/table-8 80, mnist-small/table-8-lengths 40, mnist-small/table-8-sizes 120,
    mnist-small/table-std 40, owen-cifar10 3, probes/frozen-random-heard 15, probes/probe-arrow 57,
    probes/probe-arrow-std 9, probes/probe-direction 60, probes/probe-distance 60, probes/probe-where 60,
    pulfer-mnist/head 10, table-8-64 40, few-shot-transfer 20, lape-64 30, larger-64 20, larger-64-cpu 15,
    positions-64 35, s-chh-cifar10 15, stem-x-kind-64 30, table-8-64-pilot 6, table-8-64-rates 40, table-8-cifar10 40,
    table-8-tuned 40, table-std-64 30, table-std-init-64 30, tintn-cifar10 5, modern 40,
    untried 30, mnist-0.01/depth 20, mnist-0.01/dropout 30, mnist-0.01/modern 45, mnist-0.01/registers 15,
    mnist-0.01/stem-x-kind 30, mnist-0.01/table-8 40, mnist-0.01/table-std 40, mnist-0.01/untried 30,
    flags-cifar10 45, init-cifar10 75, flags-rates 39, flags-init-cifar10 45, sine-scale 18, dropout-100 6
"""
RUNS = {name: int(n) for name, n in (entry.split() for entry in COUNTS.split(","))}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_reference_study_is_complete_and_unchanged(name):
    study = page.study(name)
    runs = study.runs.set_index("run")
    assert len(runs) == RUNS[name] and set(runs["status"]) == {"finished"} and not study.troubles
    assert runs["digest"].str.fullmatch("[0-9a-f]{64}").all()
    assert runs["commit"].isna().all() if name == "larger-64" else runs["commit"].notna().all()  # no git on its machine
    assert runs["epochs"].to_dict() == study.curves.groupby("run")["epoch"].max().to_dict()
    assert {"eval.fewshot", "eval.shots"} <= set(runs)  # settings that are newer than the first of these studies
    assert sum(path.stat().st_size for path in (REFERENCE / name).iterdir()) < 1_000_000
    if name == "digits/position":
        none = runs.groupby("variant")["test/acc"].mean()["none"]
        assert none == pytest.approx(0.7244, abs=5e-5)  # the README's 72.4 %


def test_no_reference_study_is_left_out():
    assert {*STUDIES} == {*RUNS}
