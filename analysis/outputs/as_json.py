"""The comparisons of a study as data, for scripts and for programs that search: `vit-report STUDY --json`."""

import math
from collections.abc import Mapping
from typing import Any

from analysis.findings import Findings
from analysis.findings.columns import n_of
from analysis.findings.policy import Policy
from analysis.outputs.across import across_rows
from analysis.report import study_sections, warnings
from analysis.verdicts import ALPHA, Comparison, Estimate

SCHEMA = 1
SHARED = ("schema", "metric", "lower_is_better", "baseline", "margin", "level")  # equal on all datasets


def as_dict(findings: Findings) -> dict[str, Any]:
    """Metric, margin, means, warnings and every comparison, with what the seeds can detect; None: what is not known.

    `look`: the planned looks, the seeds of the one that is reached, and the next one; None where none are planned.
    Values, intervals and differences are in the unit of the metric: accuracies are fractions.
    """
    policy, metric, looks = findings.policy, findings.means.metric, findings.policy.looks
    failed = findings.conduct.counts[["diverged", "pruned"]].sum(axis=1)
    return {
        "schema": SCHEMA,
        "study": findings.study.name,
        "metric": str(metric),
        "lower_is_better": metric.lower_is_better,
        "baseline": findings.variants.baseline,
        "margin": policy.margin,
        "level": 1 - ALPHA,
        "family": policy.family,
        "look": {"planned": list(looks.plan), "look": len(looks.seeds), "next": looks.next} if looks else None,
        "warnings": [warning.text for warning in warnings(study_sections(findings))],
        "variants": [
            {
                "variant": row.variant,
                **_estimate(row.mean),
                "failed": int(failed[row.variant]),
                "rank": [*(row.rank or ())] or None,
            }
            for row in findings.rows
        ],
        "comparisons": [
            {"variant": pair.a.variant, "reference": pair.b.variant, **_comparison(pair.comparison, policy)}
            for pair in findings.pairs
        ],
    }


def across_dict(studies: Mapping[str, Findings]) -> dict[str, Any]:
    """Dataset -> `as_dict` of its study; and on which datasets each variant is shown to differ from the baseline."""
    datasets = {name: as_dict(findings) for name, findings in studies.items()}
    counted = [{"variant": row.variant, **row.shown} for row in across_rows(studies) if row.shown]
    shared = {key: next(iter(datasets.values()))[key] for key in SHARED}
    return {**shared, "against_baseline": counted, "datasets": datasets}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    ends = {"low": _known(estimate.low), "high": _known(estimate.high)}
    return {"value": _known(estimate.value), **ends, "n": estimate.n}


def _comparison(comparison: Comparison, policy: Policy) -> dict[str, Any]:
    tested = comparison.tested
    return {
        **_estimate(comparison.adjusted),
        **n_of(comparison, policy),
        "p_adjusted": _known(comparison.p_adjusted) if tested else None,
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "detectable": _known(comparison.detectable) if tested else None,
    }


def _known(value: float) -> float | None:
    """The value; None where it is not finite, which JSON has no form of."""
    return float(value) if math.isfinite(value) else None
