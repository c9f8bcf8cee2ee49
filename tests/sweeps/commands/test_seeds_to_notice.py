"""The seeds that a difference of the margin takes, against simulated studies."""

import json
import re


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
        status, out, _ = vit_sweep("run", tmp_path / "grid.yaml", "--out", tmp_path, "--dry-run")
        assert status == 0
        seeds[name] = int(re.search(r", about (\d+) if it is 1 of the margin", " ".join(out.split()))[1])
    assert seeds["baseline"] < seeds["no grid"] < seeds["plain"] < seeds["looks"] <= seeds["paired"]
