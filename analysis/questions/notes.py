"""What must a reader know before the numbers? Warnings on the runs, the plan, the code and the machines."""

from collections.abc import Sequence
from typing import Any

from analysis import words
from analysis.findings import Findings
from analysis.findings.conduct import Conduct, two_scales
from analysis.runs.held_fixed import changed_images, not_held_fixed
from analysis.runs.runs import ENDED, Runs
from analysis.write.document import Section, Warn, about
from experiments.errors import MOST_NAMED, first_few

BY_VALUE = ("metric", "margin", "baseline")  # fields of which a change shows both values
WILD = 4  # times; see "How often it errs" in analysis/verdicts/README.md
LEFT_OUT = "Runs that failed and are left out make a variant look better than it is."


def question(findings: Findings) -> Section:
    """The warnings, the most important first."""
    conduct = findings.conduct
    warnings = [
        *about(
            "the table", map(Warn, (*conduct.study.notes, *two_scales(findings.means.values, findings.means.metric)))
        ),
        *about("settings", _settings(conduct), changes=True),
        *about("images", _images(conduct.study), changes=True),
        *about("plan", (_changed(field, before, conduct) for field, before in conduct.changes.items()), changes=True),
        *about("failed runs", _excluded(findings), changes=True),
        *about("chance", _near_chance(findings)),
        *about("missing runs", _fewer(findings), changes=True),
        *about("spread", _wild(findings), changes=True),
        *_code_and_machines(conduct),
    ]
    return Section("conduct", "Conduct", warnings=warnings)


def _settings(conduct: Conduct) -> list[Warn]:
    cause = "It may explain a difference between variants."
    return [
        Warn(f"{path} was not held fixed ({_some(values)}) and is no factor.", cause)
        for path, values in not_held_fixed(conduct.study).items()
    ]


def _wild(findings: Findings) -> list[Warn]:
    """A variant whose standard deviation is above `WILD` times the median of the others."""
    spreads = findings.means.values.std().dropna()
    if findings.policy.variance != "shared" or len(spreads) < 3:
        return []
    wild = [name for name, sd in spreads.items() if sd > WILD * spreads.drop(name).median() > 0]
    names = _some([findings.variants.brief[str(name)] for name in wild])
    line = f"More than {WILD} times the standard deviation of the others (median): {names}."
    why = "Up to 10 % of such studies show a difference that is not there; with variance: paired, 5 %."
    return [Warn(line, why)] * bool(wild)


def _near_chance(findings: Findings) -> list[Warn]:
    """The variants with a mean near guessing: at most the margin or, for an accuracy c, c (1 - c) / 4 away."""
    chance, policy, brief = findings.outcomes.chance, findings.policy, findings.variants.brief
    room = (chance * (1 - chance) / 4 * policy.metric.is_share).clip(lower=policy.margin or 0.0)
    near = chance.index[(findings.outcomes.values.mean() - chance).abs() <= room]
    line = f"Near chance: {_some([brief[variant] for variant in sorted(near)])}."
    return [Warn(line, "Variants that learn nothing say nothing of what they vary.")] * bool(len(near))


def _images(study: Runs) -> list[Warn]:
    changed, most = changed_images(study), int(max(study.of(*ENDED)["test_copies"].fillna(0), default=0))
    line = f"The images were changed between runs of {_some(changed)}, so the tests are not valid."
    why = "Their number or the hash of their files differs. The runs are compared as if they were paired."
    copies = f"{words.plural(most, 'test image')} can be found among the training images as well."
    seen = Warn(copies, "The test accuracy is not one on unseen images.")
    return ([Warn(line, why)] if changed else []) + ([seen] if most else [])


def _changed(field: str, before: dict[Any, int], conduct: Conduct) -> Warn:
    """A field of the study that was changed. `before`: its values then -> how many runs had ended."""
    plan, runs = conduct.study.stated_plan, words.plural(sum(before.values()), "run")
    if field == "looks":
        looks = ", ".join(map(str, plan.looks)) or "no looks"
        line = f"The planned looks were changed after {runs} had started, to {looks}."
        return Warn(line, "Looks planned after seeing results do not keep the rate of false verdicts.")
    then = words.listing(list(filter(None, before)), "or")
    if field == "seeds":
        seeds = ", ".join(map(str, sorted({run.seed for run in plan.runs})))
        line = f"Seeds were added after {runs} had started: from {then} to {seeds}."
        return Warn(line, "The tests do not account for seeds added after seeing results.")
    if field in BY_VALUE and then:
        line = f"The {field} was changed after {runs} had started: from {then} to {getattr(plan, field)}."
        return Warn(line, "So the comparison is exploratory.")
    return Warn(f"The plan was changed after {runs} had started: {field}.")


def _excluded(findings: Findings) -> list[Warn]:
    conduct, planned = findings.conduct, words.plural(findings.conduct.planned, "run")
    pruned = "They were stopped early for low results and are excluded from all means, which are therefore too high."
    pruned += "" if "diverged" in conduct.excluded else _covered(findings)
    whys = {"unreadable": "They are excluded from all means.", "pruned": pruned}
    known = {status: len(conduct.excluded[status]) for status in whys if status in conduct.excluded}
    lost = [Warn(f"{words.capital(status)}: {n} of {planned}.", whys[status]) for status, n in known.items()]
    return [*(_diverged(findings) if "diverged" in conduct.excluded else []), *lost]


def _diverged(findings: Findings) -> list[Warn]:
    """How many runs diverged, and which verdicts depend on them."""
    variants, counts = findings.variants, findings.conduct.counts["diverged"]
    lost = {variants.brief[variant]: n for variant, n in counts.items() if n}
    listed = ", ".join(f"{words.plural(n, 'run')} of {words.quoted(name)}" for name, n in lost.items())
    head = "Diverged" if findings.study.recorded else "Failed"
    return [Warn(f"{head}: {listed}.", f"Means use the finished runs.{_covered(findings)}")]


def _fewer(findings: Findings) -> list[Warn]:
    """The variants that lack a result that others have, whatever the cause: a seed, or a number of runs.

    Failed runs are none of them: they have warnings of their own, and verdicts cover them.
    """
    policy, brief = findings.policy, findings.variants.brief
    tested = findings.outcomes.at(policy.looks)
    has_ended = tested.values.notna() | tested.failed
    seeds_of = {variant: list(tested.values.index[has_ended[variant]]) for variant in has_ended}
    said, most = [], max(map(len, seeds_of.values()))
    expected = sorted(tested.values.index if policy.looks.plan else {seed for of in seeds_of.values() for seed in of})
    for variant, seeds in seeds_of.items():
        lost = [str(seed) for seed in expected if seed not in seeds]
        if policy.unit == "run" and len(seeds) < most:
            said.append(f"{brief[variant]} has {words.plural(len(seeds), 'run')}")
        elif policy.unit == "seed" and lost:
            said.append(f"{brief[variant]} has {len(seeds)} of {len(expected)} seeds: no result of {_some(lost)}")
    rest = f"; the others have {most}" if policy.unit == "run" else ""
    return [Warn(f"{first_few(said, '; ')}{rest}.", LEFT_OUT)] if said else []


def _covered(findings: Findings) -> str:
    """What failed runs do to the verdicts."""
    if not findings.variants.others:
        return ""
    if findings.outcomes.chance_unknown:
        return " Their chance level is not known: their variants have means, but are not tested."
    changed = sum(comparison.depends_on_failed for comparison in findings.comparisons.family.values())
    return (
        " Intervals and verdicts also cover what the runs show if failed runs count at chance level; verdicts that "
        f"this changes: {changed}."
    )


def _code_and_machines(conduct: Conduct) -> list[Warn]:
    ended, hardware, where = conduct.study.of(*ENDED), conduct.hardware, "See Provenance."
    commits = ended["commit"].nunique()
    torch = sorted(ended["versions"].str.extract(r"\btorch ([^,]+)")[0].dropna().unique())
    copied = Warn("The source of a plug-in is not committed to git.", "The records have a copy, RUN/plugin.", "code")
    shared = "a difference between variants that did not share it may come from it."
    weights = f"With the same seed, another version can draw other initial weights, so {shared}"
    times = f"Times are comparable only between runs on the same hardware, and {shared}"
    machines = f"The runs used {len(hardware)} kinds of hardware: {'; '.join(hardware)}."
    versions = f"The runs used {len(torch)} versions of PyTorch: {words.listing(torch)}."
    warnings = (
        (commits > 1, Warn(f"The runs come from {commits} different commits.", where, "code")),
        (ended["dirty"].eq(True).any(), Warn("Some runs come from code with uncommitted changes.", where, "code")),
        (ended["plugin_committed"].eq(False).any(), copied),
        (len(hardware) > 1, Warn(machines, times, "hardware")),
        (len(torch) > 1, Warn(versions, weights, "versions")),
    )
    return [warning for applies, warning in warnings if applies]


def _some(names: Sequence[str]) -> str:
    return words.listing(names) if len(names) <= MOST_NAMED else first_few(names)
