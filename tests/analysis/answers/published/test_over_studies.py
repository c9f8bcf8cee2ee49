"""Which studies count in the summary of a claim, and how often."""

import numpy as np
import pandas as pd
import pytest

from analysis.answers.published.over_studies import summaries

GROUPS = {"a": 0, "a again": 0, "b": 1, "c": 2, "d": 3}


def row(study, mean=0.02, error=0.01, verdict="undecided here", own=True, id="claim", pairs=1, metric="test/acc"):
    fields = {"study": study, "id": id, "verdict": verdict, "_own": own, "metric": metric}
    return fields | {"mean_difference": mean, "standard_error": error, "pairs": pairs}


def summary(*rows):
    return summaries(pd.DataFrame(rows, dtype=object), GROUPS)


@pytest.mark.parametrize("other", [row("a", 0.5, 0.03, pairs=2), row("a", 0.5, 0.001)])
def test_studies_that_share_runs_count_once_with_the_most_pairs_and_the_smallest_standard_error(other):
    again = row("a again", pairs=2)
    for first, second in ((other, again), (again, other)):
        (found,) = summary(first, second, row("b"), row("c")).to_dict("records")
        assert (found["n"], found["studies"]) == (3, "a again, b and c")
        assert found["mean_difference"].value == pytest.approx(0.02)


@pytest.mark.parametrize(
    "fourth",
    [
        row("d", 0.5, verdict="not comparable"),
        row("d", 0.5, np.nan),
        row("d", 0.5, own=False),
        row("d", 0.5, metric="fewshot/mnist/5"),
        row("d", np.nan, np.nan),
    ],
)
def test_what_does_not_count(fourth):
    """A study that cannot decide the claim or without a spread, another image size, and a claim of no direction."""
    three = [row("a"), row("b"), row("c")]
    (found,) = summary(*three, fourth).to_dict("records")
    assert (found["n"], found["mean_difference"].value) == (3, pytest.approx(0.02))
    assert summary(row("a"), row("b"), fourth).empty


def test_claims_stay_in_their_order():
    rows = [row(study, id=id) for id in ("z", "a") for study in "abc"]
    assert summary(*rows)["id"].tolist() == ["z", "a"]
