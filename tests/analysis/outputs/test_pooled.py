"""The difference of one pair of settings over studies."""

import numpy as np
import pytest
from page import REFERENCE, results, study
from scipy import stats

from analysis.main import body
from analysis.outputs.pooled import pool
from experiments.errors import UserError

NONE = "model.pos_embed=none - model.pos_embed=learned-1d"
ROPE = "model.pos_embed=rope-2d - model.pos_embed=learned-1d"


def studies(*names):
    return {name: results(name) for name in names}


def test_the_pair_differs_in_nothing_else_and_its_seeds_are_those_of_the_exports():
    names = ["positions-64", "kinds-cifar10", "s-chh-cifar10"]
    found = pool(studies(*names), ROPE)
    by_study = []
    for name in names:
        runs = study(name).runs.set_index(["variant", "seed"])["test/acc"]
        by_study.append((runs["rope-2d"] - runs["learned-1d"]).to_numpy())
    every = np.concatenate(by_study)
    low, high = stats.t.interval(0.95, len(every) - 1, every.mean(), stats.sem(every))
    assert [effect.above for effect in found.effects] == [5, 5, 3]
    assert (found.seeds.value, found.seeds.low, found.seeds.high) == pytest.approx((every.mean(), low, high))
    means = [differences.mean() for differences in by_study]
    ends = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    assert (found.studies.value, found.studies.low, found.studies.high) == pytest.approx((np.mean(means), *ends))


@pytest.mark.parametrize(
    ("names", "pair", "said"),
    [
        (("positions-64", "larger-64"), ROPE, "positions-64 and larger-64 share runs"),
        (("kinds-cifar10", "table-8-64-rates"), ROPE, "different metrics: test/acc, val/acc"),
        (("table-8-64",), ROPE, "table-8-64 has no pair that differs in these settings alone"),
        (("stem-x-kind-64",), NONE, "several pairs: .*stem=patchify.*stem=conv.*add settings"),
        (("table-8-64",), NONE, "has no pair"),
        (("kinds-cifar10",), "model.pos_embed=rope-2d", "expected SETTING=VALUE"),
        (("kinds-cifar10",), "pos_embed=none - pos_embed=rope-2d", "'pos_embed' is not a setting"),
    ],
)
def test_what_cannot_be_pooled_is_refused_by_name(names, pair, said):
    with pytest.raises(UserError, match=said):
        pool(studies(*names), pair)


def test_settings_tell_several_pairs_apart():
    pair = "model.stem=conv, model.pos_embed=none - model.stem=conv, model.pos_embed=learned-1d"
    (effect,) = pool(studies("stem-x-kind-64"), pair).effects
    assert (effect.a, effect.b) == ("stem=conv, pos_embed=none", "stem=conv, pos_embed=learned-1d")


def test_the_command_prints_the_pooled_difference_and_writes_a_row_for_each_study(tmp_path, capsys):
    names = ("positions-64", "kinds-cifar10", "s-chh-cifar10")
    assert body(["pool", *(str(REFERENCE / name) for name in names), "--pair", ROPE, "--out", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "13 of 13 seeds above 0, +0.97 points (95 % CI 0.67 to 1.27) in these studies" in said
    assert "chosen after the results" in said
    rows = (tmp_path / "tables" / "pooled.csv").read_text().splitlines()
    assert len(rows) == 1 + len(names) + 2 and (tmp_path / "figures" / "pooled.svg").is_file()
