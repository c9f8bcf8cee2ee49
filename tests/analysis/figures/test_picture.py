"""The picture of the README shows the runs of the records."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"


def test_the_marks_of_the_picture_are_the_runs_and_their_means():
    """Where a mark stands is linear in its difference from the baseline's mean: only where no value was changed."""
    svg = (REFERENCE / "figures" / "table-8-64.svg").read_text(encoding="utf-8")
    runs = pd.read_csv(REFERENCE / "table-8-64" / "runs.csv")
    accuracy = runs.pivot(index="variant", columns="seed", values="test/acc")
    means = accuracy.mean(axis=1).sort_values(ascending=False)  # the rows, from top to bottom
    marks = [re.search(rf'<g id="bar-0-{row}-0">.*?<use [^>]*?\bx="([\d.]+)"', svg, re.S)[1] for row in range(8)]
    groups = re.findall(r"(?:<use [^>]*?/>\s*){5}", svg)
    dots = [float(x) for group in groups for x in re.findall(r'\bx="([\d.]+)"', group)]
    values = [*means, *accuracy.loc[means.index].to_numpy().ravel()]
    places = [*map(float, marks), *dots]
    assert len(places) == len(values) == 8 + 40
    slope, start = np.polyfit(values, places, 1)
    assert slope > 0 and np.abs(slope * np.array(values) + start - places).max() < 0.01
