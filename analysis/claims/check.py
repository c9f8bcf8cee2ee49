"""Published statements as small checkable objects, each with its source, and what a study's runs say of each. No I/O.

A claim holds for every case that it speaks of (every pair of variants, say), so "reproduced" takes a test of each case
at alpha, and needs no adjustment (an intersection-union test: Berger, Technometrics 24 (1982), 295-300). One case
against it contradicts it, so there the tests are Holm-adjusted over the cases. Both kinds of error come up in at most
alpha of all studies. All else is "undecided"; a claim of which a study holds no case is not listed.

The statements are checked at the study's own scale, which is rarely that of the source: a contradiction is one of the
statement as a rule, not of the source's measurement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar, Literal

import numpy as np

from analysis import formatting
from analysis.claims.hypotheses import AboveHypothesis, AlikeHypothesis, HeadlineHypothesis, Hypothesis
from analysis.sources.study import PLACES
from analysis.stats.comparisons import holm, paired
from analysis.stats.estimates import Estimate
from experiments.data.catalogue import DATASETS
from vit.registry import REGISTRY

Outcome = Literal["reproduced", "contradicted", "undecided"]
Values = Mapping[str, Mapping[Hashable, float]]
"""variant -> seed -> the study's metric, not finite where the run diverged"""

KIND, SITE, HEAD, SHUFFLED = "model.pos_embed", "model.pos_site", "model.head", "data.shuffle_patches"

PAPER = "Dosovitskiy et al., arXiv 2010.11929, Table 8 and appendix D.4 (ViT-B/16, ImageNet 5-shot, one run a cell)"
PAPER_TABLE_8: dict[tuple[str, str], float] = {
    ("none", "stem"): 0.61382,
    ("learned-1d", "stem"): 0.64206,
    ("learned-1d", "every-layer"): 0.63964,
    ("learned-1d", "every-layer-shared"): 0.64292,
    ("learned-2d", "stem"): 0.64001,
    ("learned-2d", "every-layer"): 0.64046,
    ("learned-2d", "every-layer-shared"): 0.64022,
    ("relative", "stem"): 0.64032,
}
"""(row, column) -> accuracy, as printed; "stem" is the column "Default/Stem", where relative attention stands too."""

PAPER_KINDS = frozenset(kind for kind, _ in PAPER_TABLE_8) - {"none"}


def site_of(kind: str, site: str | None = None) -> str:
    """Where a kind acts: the site itself, or the kind's natural one where none is set ("stem" for one not known here)."""
    if site not in (None, "natural"):
        return site
    return REGISTRY[kind].sites[0] if kind in REGISTRY else "stem"


def paper_accuracy(kind: str, site: str | None = None) -> float | None:
    """The paper's figure for a kind at a site (None: its natural one), a fraction; None where there is no such cell."""
    column = "stem" if site_of(kind, site) == site_of(kind) else site
    return PAPER_TABLE_8.get((kind, column))


@dataclass(frozen=True)
class Claim(ABC):
    """A statement, where it was made, and (in the subclasses) which cases a study holds of it and what decides each."""

    id: str
    statement: str
    source: str
    kind: ClassVar[str] = ""

    @abstractmethod
    def cases(self, study: Mapping, values: Values, margin: float) -> list[Hypothesis]:
        """What the study has to say of the claim, case by case; empty where it says nothing."""


@dataclass(frozen=True)
class Above(Claim):
    """One level of a setting beats another, all else equal, by more than the margin or (`at_all`) by anything."""

    kind: ClassVar[str] = "difference"
    path: str = KIND
    higher: frozenset[str] = frozenset()
    """levels; empty means all but `lower`"""
    lower: frozenset[str] = frozenset()
    at_all: bool = False

    def cases(self, study: Mapping, values: Values, margin: float) -> list[Hypothesis]:
        cells = variant_settings(study, values)
        pairs = [
            (a, b)
            for a, b in permutations(cells, 2)
            if cells[b].get(self.path) in self.lower
            and (cells[a].get(self.path) in self.higher if self.higher else cells[a].get(self.path) not in self.lower)
            and _differ_only(cells[a], cells[b], self.path)
        ]
        bound = 0.0 if self.at_all else margin
        return [AboveHypothesis(f"{a} over {b}", (a, b), diffs, bound) for (a, b), diffs in _diffs(values, pairs)]


@dataclass(frozen=True)
class Alike(Claim):
    """The levels of a setting differ by less than the margin, all else equal; of these kinds of embedding only."""

    kind: ClassVar[str] = "equivalence"
    path: str = KIND
    kinds: frozenset[str] = frozenset()
    """empty means all but none"""

    def cases(self, study: Mapping, values: Values, margin: float) -> list[Hypothesis]:
        cells = {
            variant: at for variant, at in variant_settings(study, values).items() if at.get(KIND, "none") != "none"
        }
        cells = {variant: at for variant, at in cells.items() if not self.kinds or at[KIND] in self.kinds}
        pairs = [
            (a, b)
            for i, a in enumerate(cells)
            for b in list(cells)[:i]
            if cells[a].get(self.path) != cells[b].get(self.path) and _differ_only(cells[a], cells[b], self.path)
        ]
        return [AlikeHypothesis(f"{a} against {b}", (a, b), diffs, margin) for (a, b), diffs in _diffs(values, pairs)]


@dataclass(frozen=True)
class Headline(Claim):
    """A preset reaches the test accuracy that its source reports, within the margin."""

    kind: ClassVar[str] = "headline"
    preset: str = ""
    accuracy: float = float("nan")

    def cases(self, study: Mapping, values: Values, margin: float) -> list[Hypothesis]:
        if study.get("preset") != self.preset or study["metric"] != "test/acc":
            return []
        from experiments.presets import preset

        own = _settings(preset(self.preset).model_dump(mode="json"), {})
        name = f"less the published {formatting.number(100 * self.accuracy, 2)} %"
        return [
            HeadlineHypothesis(
                f"{variant} {name}", (variant,), np.array(list(values[variant].values())) - self.accuracy, margin
            )
            for variant, at in variant_settings(study, values).items()
            if at == own
        ]


RIVAL = "s-chh, 2D-Positional-Encoding-Vision-Transformer, 2024 (CIFAR-10, 200 epochs, one unseeded run a cell)"
RIVAL_CIFAR_10 = {"none": 0.7963, "learned-1d": 0.8652, "sincos-2d": 0.8609, "rope-2d": 0.8849, "relative": 0.9057}
"""kind -> accuracy; relative and rope act in every layer there, the others at the stem."""

COMMON = "the paper's conclusion as it is commonly repeated, for every embedding of the study"
LITERATURE: tuple[Claim, ...] = (
    Above(
        "paper-none",
        "Without a positional embedding accuracy is far below that with the paper's.",
        PAPER,
        higher=PAPER_KINDS,
        lower=frozenset({"none"}),
    ),
    Above(
        "any-none",
        "Without a positional embedding accuracy is far below that with any.",
        COMMON,
        lower=frozenset({"none"}),
    ),
    Alike(
        "paper-kinds",
        "How position is encoded makes little to no difference, among the paper's kinds.",
        PAPER,
        kinds=PAPER_KINDS,
    ),
    Alike("any-kinds", "How position is encoded makes little to no difference, whichever the kind.", COMMON),
    Alike(
        "paper-sites",
        "Where the embedding is added matters little, for the paper's kinds.",
        PAPER,
        path=SITE,
        kinds=PAPER_KINDS,
    ),
    Alike("any-sites", "Where the embedding is added matters little, whichever the kind.", COMMON, path=SITE),
    Above(
        "softmax-head",
        "Softmax before cross-entropy trains worse than logits.",
        "torch.nn.CrossEntropyLoss, which asks for logits; Pulfer, 2022, gives it probabilities (loss floor 1.461)",
        path=HEAD,
        higher=frozenset({"logits"}),
        lower=frozenset({"softmax"}),
        at_all=True,
    ),
    *(
        Above(
            f"rival-{kind}",
            f"{kind} is well above learned-1d ({accuracy:.2%} against {RIVAL_CIFAR_10['learned-1d']:.2%}).",
            RIVAL,
            higher=frozenset({kind}),
            lower=frozenset({"learned-1d"}),
        )
        for kind, accuracy in RIVAL_CIFAR_10.items()
        if accuracy > RIVAL_CIFAR_10["learned-1d"] + 0.01
    ),
)


@dataclass(frozen=True)
class ClaimResult:
    """What a study says of a claim. `estimates`: every case with its difference and 1 - 2 alpha interval."""

    claim: Claim
    verdict: Outcome
    evidence: str
    more_seeds: int | None
    """how many more would decide it at 80 % power, were the observed values the true ones: 0 where it is decided,
    None where no practical number would or the spread is not known"""
    n: int
    """seeds behind the case with the fewest"""
    estimates: tuple[tuple[tuple[str, ...], Estimate], ...]


def check(claims: Iterable[Claim], study: Mapping, values: Values, alpha: float = 0.05) -> list[ClaimResult]:
    """What the study's runs say of each claim that they bear on; `study` as in study.json, whose margin is used.

    A claim with the very cases of one before it says nothing new, and is left out. All claims are about accuracies: a
    study of another metric yields none.
    """
    if not study["metric"].endswith("/acc"):
        return []
    results, seen = [], set()
    for claim in claims:
        cases = claim.cases(study, values, study.get("margin", 0.01))
        what = (claim.kind, frozenset(case.name for case in cases))
        if cases and what not in seen:
            seen.add(what)
            results.append(_judge(claim, cases, alpha))
    return results


def published_claims() -> tuple[Claim, ...]:
    """All that are known here: the literature's, and each preset's headline figure, which is kept with the preset."""
    from experiments.presets import PRESETS

    headlines = [
        Headline(
            id=f"headline-{name}",
            statement=f"{name} reaches {formatting.number(100 * preset.claim, 2)} % test accuracy.",
            source=f"{preset.source} ({preset.scored})",
            preset=name,
            accuracy=preset.claim,
        )
        for name, preset in PRESETS.items()
        if preset.claim is not None
    ]
    return (*LITERATURE, *headlines)


def _judge(claim: Claim, cases: list[Hypothesis], alpha: float) -> ClaimResult:
    p_for = np.array([case.p_for() for case in cases])
    shown, failed = p_for <= alpha, holm([case.p_against() for case in cases]) <= alpha
    verdict: Outcome = "contradicted" if failed.any() else "reproduced" if shown.all() else "undecided"
    pick = {"contradicted": failed, "reproduced": shown, "undecided": ~shown}[verdict]
    of_note = np.flatnonzero(pick)[np.argmax(np.nan_to_num(p_for[pick], nan=1.0))]
    more = _more_seeds(cases, ~shown, alpha) if verdict == "undecided" else 0
    return ClaimResult(
        claim=claim,
        verdict=verdict,
        evidence=_evidence(cases[of_note], verdict, int(pick.sum()), len(cases), more, alpha),
        more_seeds=more,
        n=min(case.moments[2] for case in cases),
        estimates=tuple((case.variants, case.estimate(alpha)) for case in cases),
    )


def _more_seeds(cases: list[Hypothesis], undecided: np.ndarray, alpha: float) -> int | None:
    """Were the observed means true: a single case against the claim would do, or else every open case must be shown."""
    if any(np.isnan(case.moments[1]) for case in cases):
        return None
    against = [case.missing(alpha / len(cases)) for case in cases if not case.leans_for()]
    if against:
        return min((more for more in against if more is not None), default=None)
    wanted = [case.missing(alpha) for case, still in zip(cases, undecided) if still]
    return None if None in wanted else max(wanted)


def _evidence(case: Hypothesis, verdict: Outcome, hits: int, total: int, more: int | None, alpha: float) -> str:
    """One sentence: how many cases are as the verdict says, and the numbers of the most telling one."""
    estimate = case.estimate(alpha)
    takes = f"{case.relation}{100 * case.bound:g}"
    places = formatting.decimals(100 * formatting.half_width(estimate))
    interval = f"{100 * (1 - 2 * alpha):.0f} % interval {formatting.bounds(estimate, 100)}, {estimate.n} seeds"
    measured = f"{case.name} is {formatting.number(100 * estimate.value, places, signed=True)} points ({interval})"
    if np.isnan(estimate.low):
        return f"{case.name} rests on {estimate.n} seed{'s' * (estimate.n != 1)}, too few to test."
    if verdict == "reproduced":
        lead = "" if total == 1 else f"All {total} cases hold; the least certain: "
        return f"{lead}{measured}, and {takes} was to be shown."
    if verdict == "contradicted":
        lead = "" if total == 1 else f"{hits} of {total} cases fail{'s' * (hits == 1)}: "
        return f"{lead}{measured}, where the statement takes {takes}."
    lead = "" if total == 1 else f"{hits} of {total} cases {'are' if hits > 1 else 'is'} open: "
    end = f"; {case.why_open}" if more is None else ""
    among = "" if total == 1 else f", among {total} cases,"
    return f"{lead}{measured}, which{among} does not settle whether it is {takes}{end}."


def variant_settings(study: Mapping, values: Values) -> dict[str, dict[str, Any]]:
    """Each variant with values -> all its settings by dotted path, the site resolved; without controls."""
    levels = {run["variant"]: run["levels"] for run in study["runs"]}
    cells = {variant: _settings(study.get("base", {}), levels[variant]) for variant in values if variant in levels}
    return {variant: at for variant, at in cells.items() if not is_control(at)}


def is_control(settings: Mapping[str, Any]) -> bool:
    """Whether runs with these settings (by dotted path) bear on no published figure: images shuffled, or generated."""
    dataset = DATASETS.get(settings.get("data.name"))
    shuffled = settings.get(SHUFFLED)
    return bool(shuffled == True) or (dataset is not None and dataset.source == "generated")  # noqa: E712


def _settings(config: Mapping, levels: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration with levels put over it, flat; without the seed and what changes no result."""
    sections = {section: inner for section, inner in config.items() if isinstance(inner, Mapping)}
    flat = {f"{section}.{field}": value for section, inner in sections.items() for field, value in inner.items()}
    flat = {path: value for path, value in (flat | dict(levels)).items() if path not in PLACES}
    if KIND in flat:
        flat[SITE] = site_of(flat[KIND], flat.get(SITE))
    return flat


def _differ_only(a: Mapping[str, Any], b: Mapping[str, Any], path: str) -> bool:
    """Whether two cells are equal but for one setting; kinds are compared at one site, or each at its natural one."""
    if any(a.get(other) != b.get(other) for other in (a.keys() | b.keys()) - {path, SITE}):
        return False
    natural = all(at.get(SITE) == site_of(at.get(KIND)) for at in (a, b))
    return path == SITE or a.get(SITE) == b.get(SITE) or (path == KIND and natural)


def _diffs(values: Values, pairs: list[tuple[str, str]]) -> Iterable[tuple[tuple[str, str], np.ndarray]]:
    if not pairs:
        return ()
    a, b, _ = paired(values, pairs)
    return zip(pairs, a - b)
