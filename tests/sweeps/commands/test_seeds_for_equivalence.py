"""The seeds that a margin takes, against simulated studies of equal variants."""

import json

import numpy as np
import pytest
from scipy import stats

from analysis.verdicts.power import seeds_for_equivalence


@pytest.mark.parametrize(("variants", "spread", "families"), [(2, 0.5, 1), (3, 0.5, 1), (8, 0.3, 1), (8, 0.3, 2)])
def test_four_of_five_studies_show_equivalence_with_them_and_fewer_with_fewer(variants, spread, families):
    pairs, rng = variants * (variants - 1) // 2, np.random.default_rng(variants)

    def shown(n: int) -> float:
        a, b = rng.normal(0, spread, (2, 40_000, n))
        found = stats.ttest_ind(a, b, axis=1).confidence_interval(1 - 0.05 / pairs / families)
        return np.mean((found.low > -1) & (found.high < 1))

    n = seeds_for_equivalence(spread, variants, families)
    assert shown(n) >= 0.79 and shown(n - 1) < 0.8


@pytest.mark.parametrize(
    ("fields", "seeds"),
    [({}, 46), ({"extra": [{"model.pos_embed": "rope-2d"}]}, 43), ({"looks": [5, 8, 12, 20], "seeds": 20}, 47)],
)
def test_a_grid_shares_the_level_with_its_factors_and_looks_share_it(fields, seeds, tmp_path, vit_sweep):
    """Of 8 cells there are 28 pairs, at half of 5 %; one variant more is no grid, and has 36 pairs at 5 %."""
    factors = {"model.pos_embed": ["none", "learned-1d", "learned-2d", "sinusoidal"], "model.pool": ["cls", "gap"]}
    (tmp_path / "grid.yaml").write_text(json.dumps({"name": "grid", "factors": factors, **fields}))
    status, out, _ = vit_sweep("show", tmp_path / "grid.yaml", "--out", tmp_path)
    assert status == 0 and f", {seeds} if it is 1 of the margin" in out
