"""A comparison as an exit status."""

import pandas as pd
import pytest

ROWS = [(m, s, base + 0.3 * ((7 * s + 3 * i) % 5)) for i, (m, base) in enumerate(
    [("old", 90), ("new", 95), ("new, wide", 90.1), ("lost", 90)]) for s in range(5)]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("new better than old", 0, "shown: new better than old; the verdict is better (+5.0"),
        ("old worse than new", 0, "shown: old worse than new; the verdict is worse (−5.0"),
        ("old better than new", 1, "not shown: old better than new; the verdict is worse (−5.0"),
        ("'new, wide' equivalent to old", 0, "shown: 'new, wide' equivalent to old; the verdict is equivalent (+0."),
        ("lost better than old", 1, "not shown: lost better than old; the verdict is not tested (failed runs, chance"),
    ],
)
def test_the_exit_status_says_whether_it_is_shown(text, status, said, tmp_path, vit_report):
    frame = pd.DataFrame(ROWS, columns=["method", "seed", "acc"])
    frame.loc[frame["method"].eq("lost") & frame["seed"].eq(2), "acc"] = None
    frame.to_csv(tmp_path / "runs.csv", index=False)
    words = (tmp_path / "runs.csv", "--metric", "acc", "--factor", "method", "--margin", "2", "--gate", text)
    found, out, _ = vit_report(*words)
    assert found == status and out.startswith(said) and out.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]
