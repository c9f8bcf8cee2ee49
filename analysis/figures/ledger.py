"""The figure of the ledger: the decisive difference of each claim in each study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.drawing import intervals, legend, rows
from analysis.figures.labels import VariantStyle
from analysis.figures.style import FAINT, PALETTE, Drawing, style
from analysis.stats import Estimate
from experiments.metric import Metric

OUTCOMES = {
    "holds here": VariantStyle(PALETTE[2], "o"),
    "does not hold here": VariantStyle(PALETTE[3], "X"),
    "undecided here": VariantStyle(FAINT, "s"),
}
"""outcome -> how it is drawn"""


@style()
def draw_ledger(tests: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw a row for each claim with an interval for each study, in points. Keys as in `ledger_rows`, and `study`."""
    frame = pd.DataFrame(tests).dropna(subset="value")
    frame = frame[frame["verdict"].isin(OUTCOMES)]
    claims = list(dict.fromkeys(frame["id"]))
    figure, (axes,) = rows(claims)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    axes.set_xscale("symlog", linthresh=2)  # most differences are small, and few are large
    axes.set_xticks(ticks := [-30, -10, -3, -1, 0, 1, 3, 10, 30], map("{:g}".format, ticks))
    handles = {}
    for row, claim in enumerate(claims):
        own = frame[frame["id"] == claim]
        for place, test in zip(row + np.linspace(-0.35, 0.35, len(own) + 2)[1:-1], own.to_dict("records")):
            estimate = Estimate(*(test[name] for name in ("value", "low", "high", "n")))
            tip = [f"{test['study']}, {test['metric']}: {test['verdict']}"]
            look = OUTCOMES[test["verdict"]]
            handles[test["verdict"]] = intervals(
                axes,
                [estimate],
                [place],
                Metric("test/acc"),
                look,
                difference=True,
                size=4,
                id=f"c{row}-{place}",
                tips=tip,
            )
    axes.set_xlabel("difference, points")
    legend(figure, {outcome: handles[outcome] for outcome in OUTCOMES if outcome in handles})
    return figure
