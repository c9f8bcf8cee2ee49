"""The figure of the ledger: a forest plot of the difference of each claim in each study."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.drawing import intervals, label_rows, legend, panels
from analysis.figures.style import BAND, FAINT, PALETTE, Drawing, style
from analysis.figures.styles import VariantStyle
from analysis.verdicts import Estimate
from experiments.metric import Metric

OUTCOMES = {
    "holds here": VariantStyle(PALETTE[2], "s"),
    "does not hold here": VariantStyle(PALETTE[3], "v"),
    "undecided here": VariantStyle(FAINT, "o"),
}
"""outcome -> how it is drawn; tables show the same markers"""
ACCURACY = Metric("test/acc")
ROW = 0.155  # inches


@style()
def draw_ledger(tests: pd.DataFrame) -> Drawing:
    """Draw a row for each claim, study and metric, in points. `tests`: columns as in `ledger_rows`, and `study`."""
    tests = tests[tests["value"].notna() & tests["verdict"].isin(OUTCOMES)]
    rows: list[tuple[str, Any]] = []
    for claim, own in tests.groupby("id", sort=False):
        rows += [(claim, None), *((_label(test), test) for test in own.to_dict("records"))]
    figure, (axes,) = panels(1, 0.9 + ROW * len(rows))
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    axes.set_xscale("symlog", linthresh=2)  # most differences are small, and few are large
    axes.set_xticks(ticks := [-30, -10, -3, -1, 0, 1, 3, 10, 30], map("{:g}".format, ticks))
    label_rows(axes, [label for label, _ in rows], 8)
    axes.tick_params(axis="x", labeltop=True)  # the figure can be taller than a screen
    handles = {}
    for place, (label, (_, row)) in enumerate(zip(axes.get_yticklabels(), rows)):
        if row is None:
            label.set_fontweight("bold")
            axes.axhline(place, color=BAND, lw=1, zorder=0)
        else:
            outcome, tips = row["verdict"], [f"{row['study']}, {row['metric']}: {row['verdict']}"]
            shown = [Estimate(row["value"], row["adjusted_low"], row["adjusted_high"], row["n"])]
            mark: dict[str, Any] = {"difference": True, "size": 4, "id": f"c{place}", "tips": tips}
            handles[outcome] = intervals(axes, shown, [place], ACCURACY, OUTCOMES[outcome], **mark)
    axes.set_xlabel("difference, points")
    legend(figure, {name: handles[name] for name in OUTCOMES if name in handles})
    return figure


def _label(test: Mapping[str, Any]) -> str:
    return test["study"] if test["_own"] else f"{test['study']}, {Metric(test['metric']).img_size} px"
