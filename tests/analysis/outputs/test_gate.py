"""A comparison as an exit status."""

import pandas as pd
import pytest

from analysis.main import main

ROWS = [(m, s, base + 0.3 * ((7 * s + 3 * i) % 5)) for i, (m, base) in enumerate(
    [("old", 90), ("new", 95), ("new, wide", 90.1), ("lost", 90)]) for s in range(5)]  # fmt: skip


def gate(text, tmp_path, capsys, *more):
    frame = pd.DataFrame(ROWS, columns=["method", "seed", "acc"])
    frame.loc[frame["method"].eq("lost") & frame["seed"].eq(2), "acc"] = None
    frame.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                str(tmp_path / "runs.csv"),
                "--metric",
                "acc",
                "--factor",
                "method",
                "--margin",
                "2",
                "--gate",
                text,
                *more,
            ]
        )
    out, err = capsys.readouterr()
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]
    return stopped.value.code, out, err


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
def test_the_exit_status_says_whether_it_is_shown(text, status, said, tmp_path, capsys):
    found, out, _ = gate(text, tmp_path, capsys)
    assert found == status and out.startswith(said) and out.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("new > old", (), "--gate: 'new > old' is not allowed: expected A better than B, A worse than B or"),
        ("new, wide better than old", (), "--gate: 'new, wide better than old' is not allowed: expected"),
        ("'new better than old", (), '--gate: "\'new better than old" is not allowed: expected'),
        ("newer better than old", (), "--gate: 'newer' is not a variant; did you mean new"),
        ("new better than new", (), "--gate: 'new' and 'new' are not compared"),
        ("new better than 'new, wide'", ("--family", "baseline", "--baseline", "old"), "are not compared"),
        ("new better than old", ("--json",), "--gate: prints one line; it is not allowed with --json"),
    ],
)
def test_errors_are_one_line_and_another_status(text, more, said, tmp_path, capsys):
    status, out, err = gate(text, tmp_path, capsys, *more)
    assert status == 2 and said in err and err.count("\n") == 1 and not out
