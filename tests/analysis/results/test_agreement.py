"""In every reference study, the intervals that tables and figures show agree with the verdicts beside them."""

from pathlib import Path

import pytest

from analysis.answers.study_results import analyze
from analysis.sources.read import read

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"
STUDIES = sorted(path.parent.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("study.json"))


def contradicts(verdict: str, low: float, high: float, margin: float) -> bool:
    """Whether a reader who sees only the interval reads another verdict from it. An unknown interval says nothing."""
    if verdict in ("better", "worse"):
        return low < 0 < high or (low < 0) == (verdict == "better")
    if verdict == "equivalent":
        return low < -margin or high > margin
    return low > 0 or high < 0 or (-margin < low and high < margin)


@pytest.mark.parametrize("name", STUDIES)
def test_no_adjusted_interval_contradicts_its_verdict(name):
    results = analyze(read(str(REFERENCE / name)))
    tested = [c for c in results.comparisons.pairs.values() if c.p_holm == c.p_holm]
    for compared in tested:
        if compared.verdict not in ("both near chance", "equal on all seeds"):
            ends = compared.adjusted.low, compared.adjusted.high
            assert not contradicts(compared.verdict, *ends, results.policy.margin), compared
    for claim in results.claims:
        low, high, bound = claim.adjusted.low, claim.adjusted.high, claim.decisive.bound
        if claim.decisive.is_published or low != low or claim.outcome == "not comparable":
            continue
        if claim.outcome == "undecided here":
            outside = high < bound if claim.decisive.relation == "above" else low > bound or high < -bound
            assert not outside, claim
        inside = low >= bound if claim.decisive.relation == "above" else -bound <= low and high <= bound
        assert inside == (claim.outcome == "holds here"), claim
    untestable = len(results.variants.names) == 1 or len(results.study.plan.seeds) == 1
    assert tested or untestable or results.policy.looks.waiting  # before the first planned look nothing is tested
