"""The seeds that a margin takes, against simulated studies of equal variants."""

import json
import re

import numpy as np
import pytest
from scipy import stats
from stubbed import Stubbed

from analysis.verdicts.power import seeds_for_equivalence


def shown(n: int, spread: float, pairs: int = 1, families: int = 1) -> float:
    """The share of studies of equal variants that show equivalence with n seeds."""
    a, b = np.random.default_rng(pairs).normal(0, spread, (2, 40_000, n))
    found = stats.ttest_ind(a, b, axis=1).confidence_interval(1 - 0.05 / pairs / families)
    return np.mean((found.low > -1) & (found.high < 1))


@pytest.mark.parametrize(("pairs", "spread", "families"), [(1, 0.5, 1), (3, 0.5, 1), (28, 0.3, 1), (28, 0.3, 2)])
def test_four_of_five_studies_show_equivalence_with_them_and_fewer_with_fewer(pairs, spread, families):
    n = seeds_for_equivalence(spread, pairs, families)
    assert shown(n, spread, pairs, families) >= 0.79 and shown(n - 1, spread, pairs, families) < 0.8


def test_show_says_how_many_more_seeds_the_spread_of_the_finished_runs_takes(tmp_path, vit_sweep):
    """By hand: 50, 52 and 54 % have a standard deviation of 2 points, whatever the means of the variants are."""
    stubbed = Stubbed(tmp_path, margin=0.025)
    words = "show", stubbed.study, "--out", tmp_path
    assert " of the margin" in vit_sweep(*words)[1]
    status, _, err = stubbed.run(accuracy={"logits": [0.50, 0.52, 0.54], "softmax": [0.74, 0.72, 0.70]})
    assert status == 0, err
    out = vit_sweep(*words)[1]
    n, more, sd = re.search(r"equivalence: (\d+), (\d+) more than planned, at .* so far, (.*)\n", out).groups()
    assert sd == "2 points" and int(more) == int(n) - 3 and shown(int(n), 0.8) >= 0.79 > shown(int(n) - 1, 0.8)
    assert "72" not in out and "52" not in out  # a mean would be a look


@pytest.mark.parametrize(
    ("fields", "seeds"),
    [
        ({}, 46),
        ({"family": "baseline"}, 38),
        ({"extra": [{"model.pos_embed": "rope-2d"}]}, 43),
        ({"looks": [5, 8, 12, 20], "seeds": 20}, 47),
    ],
)
def test_a_grid_shares_the_level_with_its_factors_and_looks_share_it(fields, seeds, tmp_path, vit_sweep):
    """Of 8 cells there are 28 pairs, 7 with the baseline, at half of 5 %; one variant more is no grid, and has 36 pairs
    at 5 %.
    """
    factors = {"model.pos_embed": ["none", "learned-1d", "learned-2d", "sinusoidal"], "model.pool": ["cls", "gap"]}
    (tmp_path / "grid.yaml").write_text(json.dumps({"name": "grid", "factors": factors, **fields}))
    status, out, _ = vit_sweep("show", tmp_path / "grid.yaml", "--out", tmp_path)
    assert status == 0 and f", {seeds} if it is 1 of the margin" in out
