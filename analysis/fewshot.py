"""The few-shot accuracies of a study, by dataset and number of shots."""

from __future__ import annotations

from analysis.results import Results
from analysis.stats import Estimate
from experiments.metric import FEWSHOT, Metric


def fewshot_means(results: Results) -> dict[str, dict[Metric, dict[str, Estimate]]]:
    """dataset -> metric (at the end of training, fewest shots first) -> variant -> its mean."""
    known = [metric for metric in map(Metric, results.means) if metric.startswith(f"{FEWSHOT}/") and not metric.epochs]
    found: dict[str, dict[Metric, dict[str, Estimate]]] = {}
    for metric in sorted(known, key=lambda metric: int(metric.rpartition("/")[2])):
        found.setdefault(metric.split("/")[1], {})[metric] = results.means[metric]
    return found
