"""One comparison as an exit status, for CI: `vit-report STUDY --gate 'new better than old'`."""

import shlex
from typing import Literal

from analysis import words
from analysis.findings import Findings
from analysis.findings.conduct import two_scales
from experiments.errors import UserError
from vit.registry import did_you_mean

RELATIONS: dict[tuple[str, ...], str] = {
    ("better", "than"): "better",
    ("worse", "than"): "worse",
    ("equivalent", "to"): "equivalent",
}
EXPECTED = "expected A better than B, A worse than B or A equivalent to B; a name with spaces in quotes"


def gate(findings: Findings, text: str) -> tuple[Literal[0, 1], str]:
    """Whether the study shows what the text says, as an exit status (0: shown), and a line that says so.

    Raises `UserError` naming what the text lacks, a pair that is not compared, and one whose values do not tell.
    """
    a, relation, b = _parsed(text)
    variant_of = {name: variant for variant, name in findings.variants.brief.items()}
    for name in (a, b):
        if name not in variant_of:
            raise UserError(f"--gate: {name!r} is not a variant; {did_you_mean(name, variant_of, EXPECTED)}")
    pair, family = (variant_of[a], variant_of[b]), findings.comparisons.family
    if pair not in family and pair[::-1] not in family:
        raise UserError(f"--gate: {a!r} and {b!r} are not compared: expected two variants of a pair that is tested")
    _check_values(findings, pair)
    comparison = family[pair] if pair in family else family[pair[::-1]].reversed
    metric, shown = findings.means.metric, comparison.verdict == relation
    places = words.shared_places([comparison.adjusted], metric)
    interval = words.interval(comparison.adjusted, metric, True, places)
    size = f"{words.points(comparison.diff, metric, True, places)}, {interval}"
    why = f"{words.verdict(comparison.verdict)} ({comparison.reason or size})"
    return 0 if shown else 1, f"{'shown' if shown else 'not shown'}: {text}; the verdict is {why}"


def _check_values(findings: Findings, pair: tuple[str, str]) -> None:
    """Raise `UserError` where a variant lacks a seed that the other one has, and for values of two scales."""
    policy, tested = findings.policy, findings.outcomes.at(findings.policy.looks)
    for variant, other in (pair, pair[::-1]):
        lost = ", ".join(map(str, sorted(tested.ended.index[tested.ended[other] & ~tested.ended[variant]])))
        if lost and policy.unit == "seed" and not policy.looks.waiting:
            name = findings.variants.brief[variant]
            raise UserError(f"--gate: {name} lacks {findings.counted} {lost}; train it first")
    if said := two_scales(findings.means.values[list(pair)], findings.means.metric):
        raise UserError(f"--gate: {said[0]}")


def _parsed(text: str) -> tuple[str, str, str]:
    try:
        a, *relation, b = shlex.split(text)
        return a, RELATIONS[tuple(relation)], b
    except (ValueError, KeyError) as error:
        raise UserError(f"--gate: {text!r} is not allowed: {EXPECTED}") from error
