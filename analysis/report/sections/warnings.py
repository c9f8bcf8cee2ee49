"""What a reader must know before trusting the numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.report.text import paragraphs
from analysis.results.conduct import Conduct
from analysis.results.policy import Policy
from experiments.runs.record import COMPARISON

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware


def warnings(conduct: Conduct, cost: pd.DataFrame, policy: Policy, tuning: Sequence[str] = ()) -> list[str]:
    """Every warning, the most important first. `tuning`: those about the tuning."""
    slowest = cost["slowest"].dropna()
    slow = (slowest.idxmax(), slowest.max()) if not slowest.empty and slowest.max() > SLOW else None
    slots = {"policy": policy, "tuning": tuning, "slow": slow, "comparison": COMPARISON}
    return paragraphs("warnings", "warnings", conduct=conduct, **slots)
