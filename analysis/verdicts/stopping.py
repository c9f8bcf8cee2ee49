"""Which variants get no more seeds: those that a planned look decides. For sweeps, and for plans of tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from analysis.verdicts.study import compare_variants, from_rows
from experiments.runs.record import STATUSES as ENDED
from experiments.study import StudyPlan


def undecided_at_look(plan: StudyPlan, rows: Iterable[Mapping[str, Any]]) -> tuple[int, dict[str, list[str]]]:
    """The number of seeds of the look that is reached, and variant -> those with which it has no verdict.

    `rows`: one for each run of the plan, see `from_rows`.
    """
    policy, values = from_rows(plan, rows, plan.margin)
    return len(policy.looks.seeds), compare_variants(values, plan.baseline, policy).undecided


def after_looks(plan: StudyPlan, rows: Iterable[Mapping[str, Any]]) -> tuple[int, StudyPlan]:
    """The number of seeds of the last look that is reached, and the plan without the runs after the look that decides
    their variant, where it is until decided.

    Each look is taken again, from its own rows: what later rows hold changes nothing of what stopped before.
    `rows`: one for each run of the plan, see `from_rows`.
    """
    place = {seed: n for n, seed in enumerate(dict.fromkeys(run.seed for run in plan.runs))}
    by_run, reached = {(row["variant"], row["seed"]): row for row in rows}, 0
    for look in plan.looks:
        own = [by_run[run.variant, run.seed] for run in plan.runs if place[run.seed] < look]
        if not own or any(row["status"] not in (*ENDED, "unreadable") for row in own):
            break
        reached = look
        if plan.until_decided:
            _, without_verdict = undecided_at_look(plan, own)
            decided = {*plan.labels} - {*plan.undecided(without_verdict)}
            plan = plan.with_last_looks({**dict.fromkeys(decided, look), **plan.stopped})
    return reached, plan
