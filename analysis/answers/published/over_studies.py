"""What the studies of a folder say together about each claim of a direction."""

from collections.abc import Mapping

import pandas as pd

from analysis import formatting, stats
from analysis.answers.published.show import ACCURACY
from analysis.write.table import Column

FEWEST = 3
"""independent studies, for a prediction interval"""
SUMMARY = (
    Column("claim", "id", key=True),
    Column("studies", "studies"),
    Column("number", "n", formatting.counts),
    Column("mean difference, points", "mean_difference", formatting.intervals(ACCURACY, signed=True)),
    Column("prediction interval", "new_study", formatting.intervals_alone(ACCURACY)),
    Column("I², %", "i2", formatting.numbers(0, 100)),
)


def summaries(rows: pd.DataFrame, group: Mapping[str, int]) -> pd.DataFrame:
    """A random-effects summary of each claim of a direction that enough independent studies can decide.

    `rows`: see `ledger_rows`, with their `study`; only test accuracies count, where they are the study's own metric and
    their standard error is known. `group`: study -> the number of its group. Of a group, the study with the most pairs
    counts, then that with the smallest standard error.
    """
    known = rows[rows["_own"].astype(bool) & (rows["metric"] == ACCURACY)]
    known = known[(known["verdict"] != "not comparable") & (known["standard_error"] > 0)]
    known = known.assign(group=known["study"].map(group)).sort_values(
        ["pairs", "standard_error"], ascending=[False, True], kind="stable"
    )
    found = []
    for id, counted in known.drop_duplicates(["id", "group"]).sort_index().groupby("id", sort=False):
        if len(counted) >= FEWEST:
            summary = stats.meta_analysis(counted["mean_difference"], counted["standard_error"])
            row = {"id": id, "studies": formatting.listing([*counted["study"]]), "n": len(counted)}
            row |= {"mean_difference": summary.mean, "new_study": summary.new_study}
            found.append(row | {"i2": summary.i2, "tau": summary.tau2**0.5})
    return pd.DataFrame(found, dtype=object)
