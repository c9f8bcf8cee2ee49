"""The picture of the README shows the runs of the records."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"


def test_the_marks_of_the_picture_are_the_runs_and_their_means():
    """Where a mark stands is linear in its accuracy, in each panel: only where no value was changed."""
    svg = (REFERENCE / "figures" / "table-8-64.svg").read_text(encoding="utf-8")
    runs = pd.read_csv(REFERENCE / "table-8-64" / "runs.csv")
    accuracy = runs.pivot(index="variant", columns="seed", values="test/acc").reindex(runs["variant"].unique())
    for panel, variants in ((0, range(8)), (1, range(1, 8))):
        places, values = [], []
        for variant in variants:
            for kind, shown in (("runs", accuracy.iloc[variant]), ("mean", [accuracy.iloc[variant].mean()])):
                group = svg.partition(f'<g id="v{variant}-{kind}-{panel}-0">')[2].partition("</g>\n   </g>")[0]
                marks = [float(x) for x in re.findall(r'<use [^>]*?\bx="([\d.]+)"', group)]
                assert len(marks) == len(shown)
                places += marks
                values += list(shown)
        slope, start = np.polyfit(values, places, 1)
        assert slope > 0 and np.abs(slope * np.array(values) + start - places).max() < 0.01
