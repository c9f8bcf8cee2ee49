"""Known programs say which runs did not end; any other column is named in a note that claims nothing."""

import pandas as pd
import pytest

import analysis
from analysis.runs.tables.ended import lost_values
from experiments.errors import UserError


def table(column, values):
    """Two methods with eight seeds each; `values` are those of the first rows of the column, the last one fills it."""
    frame = pd.DataFrame({"m": ["a"] * 8 + ["b"] * 8, "seed": [*range(8)] * 2, "acc": [*range(16)]})
    return frame.assign(**{column: [*values, *[values[-1]] * (16 - len(values))]})


@pytest.mark.parametrize(
    ("column", "bad", "good"),
    [
        ("State", "crashed", "finished"),  # W&B
        ("state", "preempted", "finished"),
        ("run.status", "DIED", "COMPLETED"),  # Sacred
        ("sys/failed", "True", "False"),  # Neptune
        ("status", "ERROR", "TERMINATED"),  # Ray Tune
        ("status", "KILLED", "FINISHED"),  # MLflow
        ("status", "stopped", "completed"),  # ClearML
        ("State", "CANCELLED by 1001", "COMPLETED"),  # Slurm
        ("STATE", "OUT_OF_ME+", "COMPLETED"),
        ("job/State", "NODE_FAIL", "COMPLETED"),
        ("ExitCode", "137:0", "0:0"),
        ("status", "CANCELLED", "DONE"),  # H2O
        ("state", "PRUNED", "COMPLETE"),  # Optuna
        ("state", "TrialState.RUNNING", "TrialState.COMPLETE"),
        ("status", "error", "completed"),  # Guild
        ("State", "", "finished"),
    ],
)
def test_a_run_that_a_known_program_says_did_not_end_is_refused_with_the_way_out(column, bad, good):
    frame = table(column, [bad, good])
    with pytest.raises(UserError, match=f"{column}: 1 of 16 rows did not end") as raised:
        analysis.compare(frame, "acc", "m")
    assert f"in Python failed=['{column}!={good}']" in str(raised.value)
    results = analysis.compare(frame, "acc", "m", failed=f"{column}!={good}")
    assert results.findings.conduct.counts.loc["a", "diverged"] == 1
    assert results.findings.comparisons.versus["b"].verdict == "not tested"


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("converged", [False, True], "converged: True 15, False 1; to count them as failed: --failed converged=False"),
        ("timed_out", [True, False], "timed_out: False 15, True 1; to count them as failed: --failed timed_out=True"),
        ("hidden_state", ["lstm", "gru"], "hidden_state: gru 15, lstm 1"),
        ("use_state", ["no", "yes"], "use_state: yes 15, no 1"),
        ("error", ["CUDA out of memory", ""], "error: empty 15, CUDA out of memory 1; to count them as failed: --fail"),
        (
            "returncode",
            ["-9", "1", "0"],
            "returncode: 0 14, -9 1, 1 1; to count them as failed: --failed returncode=-9",
        ),
        ("epochs", [37, 100], "epochs: 100 15, 37 1"),
        ("status", ["COMPLETED", "TERMINATED"], "status: TERMINATED 15, COMPLETED 1"),  # of no one program
    ],
)
def test_any_other_column_is_a_note(column, values, said):
    (note,) = analysis.compare(table(column, values), "acc", "m").findings.study.plan.notes
    assert note.startswith(said)
    failed = analysis.compare(table(column, values), "acc", "m", failed=f"{column}={values[0]}")
    assert not any(note.startswith(f"{column}: ") for note in failed.findings.study.plan.notes)
    assert failed.findings.conduct.counts.loc["a", "diverged"] == 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("state", ["CA", "NY", "OK"]),  # of the US
        ("state", ["1", "2", "3"]),
        ("restate", ["finished", "crashed"]),
        ("status", ["public", "private"]),
        ("gpu_state", ["finished", "failed"]),
        ("state", [""]),
    ],
)
def test_a_column_that_no_known_program_writes_says_nothing(column, values):
    assert lost_values(column, values) == set()


def test_that_no_run_failed_is_no_error_but_a_condition_that_all_meet_is():
    frame = table("State", ["finished"])
    results = analysis.compare(frame, "acc", "m", failed="State=crashed")
    assert results.findings.study.plan.notes == ["No row meets the condition for failed runs, State=crashed."]
    with pytest.raises(
        UserError, match="'State!=done': no row of the table has it: expected COLUMN=VALUE, of: finished"
    ):
        analysis.compare(frame, "acc", "m", failed="State!=done")
