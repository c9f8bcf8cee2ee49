"""The seeds that a difference of the margin takes, against simulated studies."""

import json
import math
import re
from itertools import combinations

import numpy as np
import pytest

from analysis.verdicts.differences import Variance, differences
from analysis.verdicts.power import needed_seeds, planned_df


def noticed(n: int, spread: float, variants: int, variance: Variance) -> float:
    """The share of pairs that are shown to differ, where they differ by a margin: the level is that of all pairs."""
    first, second = np.array(list(combinations(range(variants), 2))).T
    x = np.random.default_rng(variants).normal(0, spread, (4000 // len(first) + 200, variants, n))
    return np.mean(differences(x, first, second, variance=variance).t_test(1.0) <= 0.05 / len(first))


@pytest.mark.parametrize(
    ("variants", "spread", "variance", "least"),
    [(2, 1, "shared", 0.78), (2, 1, "paired", 0.78), (8, 0.5, "paired", 0.78), (8, 1, "shared", 0.75)],
)
def test_four_of_five_studies_notice_the_margin_with_them_and_fewer_with_fewer(variants, spread, variance, least):
    """Slightly fewer where a variance is never less than its own, since it is then too large on average."""
    level = 0.05 / math.comb(variants, 2)
    needed = needed_seeds(1, math.sqrt(2) * spread, 5, level, planned_df(5, variants, variance))
    n = math.ceil(needed)
    shown = [noticed(seeds, spread, variants, variance) for seeds in (n - 1, n)]
    assert shown[0] < 0.81 and shown[1] > least


def test_paired_tests_a_grid_and_looks_take_more_seeds_and_pairs_with_the_baseline_fewer(tmp_path, vit_sweep):
    """Of 8 cells there are 28 pairs, 7 with the baseline, at half of 5 %; one variant more is no grid, and has 36 pairs
    at 5 %.
    """
    factors = {"model.pos_embed": ["none", "learned-1d", "learned-2d", "sinusoidal"], "model.pool": ["cls", "gap"]}
    fields = {
        "plain": {},
        "baseline": {"family": "baseline"},
        "no grid": {"extra": [{"model.pos_embed": "rope-2d"}]},
        "looks": {"looks": [5, 8, 12, 20], "seeds": 20},
        "paired": {"variance": "paired"},
    }
    seeds = {}
    for name, more in fields.items():
        (tmp_path / "grid.yaml").write_text(json.dumps({"name": "grid", "factors": factors, **more}))
        status, out, _ = vit_sweep("show", tmp_path / "grid.yaml", "--out", tmp_path)
        assert status == 0
        seeds[name] = int(re.search(r", about (\d+) if it is 1 of the margin", " ".join(out.split()))[1])
    assert seeds["baseline"] < seeds["no grid"] < seeds["plain"] < seeds["looks"] <= seeds["paired"]
