"""A comparison as an exit status."""

import os

import numpy as np
import pandas as pd
import pytest

import analysis

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


def write(tmp_path, rows, column="acc"):
    file = tmp_path / "runs.csv"
    pd.DataFrame(rows, columns=["method", "seed", column]).to_csv(file, index=False)
    return file


PAIRED = [(m, s, base + 0.001 * (7 * s * base % 5)) for m, base in (("old", 0.88), ("new", 0.9)) for s in range(5)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row for row in PAIRED if row[:2] != ("new", 3)], "new lacks seed 3; train it first"),
        ([row for row in PAIRED if row[:2] != ("old", 3)], "old lacks seed 3; train it first"),
        ([(m, s, 100 * v if m == "new" else v) for m, s, v in PAIRED], "old is from 0 to 1 (0.88"),
    ],
)
def test_values_that_do_not_tell_are_refused(rows, said, tmp_path, vit_report):
    file = write(tmp_path, rows)
    status, _, err = vit_report(file, "--metric", "acc", "--factor", "method", "--gate", "new better than old")
    assert status == 2 and said in err


def test_a_table_for_a_paper_comes_with_the_notes_that_may_change_a_verdict(tmp_path, vit_report):
    file = write(tmp_path, [row for row in PAIRED if row[:2] != ("new", 3)])
    flags = ("--metric", "acc", "--factor", "method", "--table", tmp_path / "methods.md")
    status, out, err = vit_report(file, *flags)
    assert (status, out) == (0, f"{tmp_path}/methods.md\n") and "Note: new has 4 of 5 seeds: no result of 3." in err


def test_a_gate_has_the_names_of_the_report(tmp_path, vit_report):
    swapped = ("--rename", "old=new", "--rename", "new=old")
    flags = ("--metric", "acc", "--factor", "method", *swapped, "--gate", "old better than new")
    assert vit_report(write(tmp_path, PAIRED), *flags)[0] == 0


def test_gate_and_report_agree_and_every_note_stands_on_stderr(tmp_path, vit_report):
    rng = np.random.default_rng(0)
    notes = statuses = 0
    for _ in range(200 if os.environ.get("SLOW_TESTS") else 20):
        seeds, spread = int(rng.integers(2, 6)), rng.choice([0.3, 3])
        rows = [
            (m, s, 90 + i + spread * rng.normal()) for i, m in enumerate(["old", "new", "other"]) for s in range(seeds)
        ]
        rows = [(m, s, np.nan if rng.random() < 0.05 else v) for m, s, v in rows if m != "other" or rng.random() < 0.9]
        file, margin = write(tmp_path, rows), float(rng.choice([0.5, 2]))
        relation = rng.choice(["better than", "worse than", "equivalent to"])
        flags = ("--metric", "acc", "--factor", "method", "--margin", margin, "--gate", f"new {relation} old")
        status, _, err = vit_report(file, *flags)
        report = analysis.read(file, "acc", factor="method", margin=margin)
        lines = {*err.splitlines()}
        assert {f"Note: {note}" for note in report.warnings} <= lines
        assert status == (0 if report.pairs.loc[("new", "old"), "verdict"] == relation.split()[0] else 1)
        notes, statuses = notes + len(report.warnings), statuses + status
    assert notes > 5 and statuses > 5
