"""In every reference study, each verdict is what its interval shows, and no interval is cut."""

from pathlib import Path

import pytest

from analysis.findings import analyze
from analysis.questions.claims import study_claims
from analysis.runs.read import read

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"
STUDIES = sorted(path.parent.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("study.json"))


def reading(low: float, high: float, margin: float) -> str:
    """What a reader who sees only the interval reads from it."""
    if low != low:
        return "not tested"
    if -margin <= low and high <= margin:
        return "equivalent"
    return "better" if low > 0 else "worse" if high < 0 else "not shown"


@pytest.mark.parametrize("name", STUDIES)
def test_every_verdict_is_what_its_interval_shows(name):
    results = analyze(read(str(REFERENCE / name)))
    pairs = [*results.comparisons.pairs.values()]
    for compared in pairs:
        low, high = compared.adjusted.low, compared.adjusted.high
        if compared.verdict not in ("both at the ceiling", "both near chance", "equal on all seeds"):
            assert compared.verdict == reading(low, high, results.policy.margin), compared
            assert (compared.p_adjusted <= 0.05) == (low > 0 or high < 0), compared
        if not compared.depends_on_diverged and low == low:  # no cut: the interval lies around the mean
            assert (low + high) / 2 == pytest.approx(compared.diff.value, abs=1e-9)
    for claim in study_claims(results):
        low, high, bound = claim.estimate.low, claim.estimate.high, claim.decisive.bound
        above = claim.decisive.relation == "above"
        holds = low > bound if above else -bound <= low and high <= bound
        fails = high < bound if above else low > bound or high < -bound
        if claim.outcome != "not comparable":
            open_or_not = "undecided here" if low == low else "not tested"
            expected = "holds here" if holds else "does not hold here" if fails else open_or_not
            assert claim.outcome == expected, claim
    if (model := results.factors.model) is not None:
        for frame in (model.contrasts, model.interactions):
            for interval, verdict in zip(frame["adjusted"], frame["verdict"]):
                assert (verdict == "shown") == (interval.low > 0 or interval.high < 0)
    tested = any(compared.p_adjusted == compared.p_adjusted for compared in pairs)
    untestable = len(results.variants.names) == 1 or len(results.study.plan.seeds) == 1
    assert tested or untestable or results.policy.looks.waiting  # before the first planned look nothing is tested
