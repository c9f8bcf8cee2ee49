"""Seeds until decided: train the seeds of one look after the other, and stop variants that have their verdicts.

The verdicts are those of the report, which shares the 5 % among the looks. study.json holds no more runs of a variant
that has stopped.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from experiments.config import DEFAULTS
from experiments.errors import UserError, say
from experiments.stated import MAX_LOOK, MOST_PAIRS
from experiments.study import RunSpec, StudyPlan
from sweeps.merged import with_stopped
from sweeps.study import Study, parse_study
from sweeps.study_folder import Ended, StudyFolder

LOOKS = (5, 8, 12, 20)
"""The numbers of seeds at which a study is tested that states no looks."""


def with_looks(study: Study, most: int | None, pairs: bool = False) -> Study:
    """The study with the looks and the seeds that it needs for up to `most` seeds. Raises `UserError`."""
    looks, seeds = study.looks or LOOKS, study.seeds
    if most is None:
        most = len(seeds) if isinstance(seeds, list) and not study.looks else looks[-1]
    if not 2 <= most <= MAX_LOOK:
        raise UserError(f"--max-seeds: {most} is not allowed: expected a number from 2 to {MAX_LOOK:,}")
    if isinstance(seeds, list) and len(seeds) < most:
        raise UserError(f"--max-seeds: {most} is not allowed: {study.name} lists {len(seeds)} seeds")
    variants = sum(1 for _ in study.variants())
    if pairs and study.family == "baseline":
        raise UserError(f"--pairs: is not allowed for {study.name}: it states family: baseline, which tests no others")
    if pairs and variants > MOST_PAIRS:
        raise UserError(f"--pairs: is not allowed for {variants} variants: pairs are tested of up to {MOST_PAIRS}")
    if variants < 2:
        raise UserError(
            f"--until-decided: is not allowed for {study.name}: it has one variant, so nothing is to decide"
        )
    if any("data.name" in factor.split("+") for factor in study.factors):
        raise UserError(
            "--until-decided: is not allowed for a study of several datasets; use one study for each dataset"
        )
    seeds = seeds[:most] if isinstance(seeds, list) else most
    looks = [*(look for look in looks if look < most), most]
    return parse_study({**study.model_dump(), "seeds": seeds, "looks": looks}, study.name)


def runs_by_look(folder: StudyFolder) -> Iterator[set[str]]:
    """The names of the runs of one look after the other, those that have ended included. After each look, variants
    stop.

    A study that stops no variants has all runs at once. A look that was reached before is passed over. Raises
    `UserError` where the study cannot be tested.
    """
    plan, reached = folder.plan, 0
    if plan.until_decided is None:
        yield {run.name for run in plan.runs}
        return
    for look in plan.looks:
        if look <= reached:
            continue
        yield {run.name for run in plan.with_last_looks(dict.fromkeys(plan.labels, look)).runs}
        stated = StudyPlan.read(folder.dir)  # with the runs that earlier commands have planned
        reached, undecided = _verdicts(stated, folder.ended)
        plan = with_stopped(plan, folder.stop(reached, {*stated.labels} - {*stated.undecided(undecided)}))
        left = plan.undecided(undecided)
        decided = [label for label in plan.labels if label not in (plan.baseline, *left)]
        say(f"look at {reached} seeds: decided: {_listed(decided)}; undecided: {_listed(left)}")
        if plan.stopped.keys() >= set(left):
            break
    saved, planned = sum(plan.looks[-1] - seeds for seeds in plan.stopped.values()), plan.looks[-1] * len(plan.labels)
    reused = sum(run.run_id in folder.reused for run in plan.runs)
    taken = f" or reused ({reused})" if reused else ""
    say(f"seeds until decided: {planned - saved} of {planned} runs trained{taken}, {saved} saved")


def _listed(labels: Sequence[str]) -> str:
    return f"{len(labels)} ({'; '.join(labels)})" if labels else "0"


def _verdicts(plan: StudyPlan, ended: Ended) -> tuple[int, dict[str, list[str]]]:
    """The number of seeds of the look that is reached, and variant -> those with which it has no verdict."""
    from analysis.verdicts.stopping import undecided_at_look  # imports numpy and scipy

    return undecided_at_look(plan, [_row(plan, run, ended) for run in plan.runs])


def _row(plan: StudyPlan, run: RunSpec, ended: Ended) -> dict[str, Any]:
    """What a verdict needs of a run; see `analysis.verdicts.study.from_rows`."""
    summary = ended.get(run.name, {"status": "incomplete"})
    known = {name: summary[name] for name in ("status", plan.metric) if name in summary}
    named = {"run": run.name, "variant": run.variant, "seed": run.seed}
    return {**DEFAULTS, **run.settings, **(summary.get("data") or {}), **known, **named}
