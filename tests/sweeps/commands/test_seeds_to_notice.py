"""The seeds that a difference of the margin takes, against simulated studies."""

import json
import math
import re
from itertools import combinations

import numpy as np
import pytest
from stubbed import Stubbed

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


def test_show_says_how_many_more_seeds_the_spread_of_the_finished_runs_takes(tmp_path, scripted, vit_sweep):
    """By hand: 50, 52 and 54 % have a standard deviation of 2 points, whatever the means of the variants are."""
    stubbed = Stubbed(tmp_path, margin=0.025)
    words = "show", stubbed.study, "--out", tmp_path
    assert " of the margin" in vit_sweep(*words)[1]
    accuracy = {"logits": [0.50, 0.52, 0.54], "softmax": [0.74, 0.72, 0.70]}
    scripted(fate=lambda run: {"test/acc": accuracy[run.variant][run.seed]})
    assert vit_sweep("run", *words[1:])[0] == 0
    out = " ".join(vit_sweep(*words)[1].split())  # lines are as wide as the terminal
    n, more, sd = re.search(
        r"notice it: about (\d+), (\d+) more than planned, at .* so far, (\d+ points)", out
    ).groups()
    assert sd == "2 points" and int(more) == int(n) - 3
    assert noticed(int(n), 0.8, 2, "shared") >= 0.78 > noticed(int(n) - 1, 0.8, 2, "shared") - 0.02
    assert not re.search(r"\b[57]2\b", re.sub(r"\S*/\S*", "", out))  # a mean would be a look; paths may have any number


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
