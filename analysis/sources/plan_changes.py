"""Changes of a study's plan after runs had started."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd

from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import cell_value, level_text
from analysis.sources.source_run import ENDED
from experiments.config import flatten, locations
from experiments.data.catalogue import DATASETS
from experiments.runs import record
from experiments.runs.stated import field_digests


def plan_changes(study: RunsTable) -> dict[str, dict[Any, int]]:
    """A field of the plan that differs from what it was when runs started -> its value then -> number of these runs.

    Metric, margin, baseline and seeds come first. Of other fields, records hold only a digest, so the value is None. Empty
    for runs whose plan is not known; older records hold less and are not counted.
    """
    if not study.recorded:
        return {}
    ended = study.of(*ENDED)
    changes = {}
    for name in record.COMPARISON:
        then, now = ended[f"planned_{name}"].dropna(), getattr(study.stated_plan, name)
        differs = then[then != (level_text(now) if isinstance(now, list) else now)]
        changes[name] = {value: int(n) for value, n in differs.value_counts(sort=False).items()}
    digests = ended["planned_fields"].dropna().map(lambda text: dict(part.split("=") for part in text.split()))
    pairs = list(zip(digests, _digests_today(study, ended.loc[digests.index]), strict=True))
    for name in sorted({name for pair in pairs for fields in pair for name in fields} - set(record.COMPARISON)):
        count = sum(then.get(name) != today.get(name) for then, today in pairs)
        changes[name] = {None: count} if count else {}
    return {name: before for name, before in changes.items() if before}


def _digests_today(study: RunsTable, runs: pd.DataFrame) -> list[dict[str, str]]:
    """The digests of the plan's fields for each run, with the run's own `locations`: moved data are no change."""
    plan = study.stated_plan
    settings = dict(flatten(plan.base))
    if settings.get("data.name") not in DATASETS:
        return [field_digests(plan)] * len(runs)
    places = [path for path in locations(settings["data.name"]) if path in settings and path in runs]

    @cache
    def digests(*located: Any) -> dict[str, str]:
        return field_digests(plan.model_copy(update={"base": settings | dict(zip(places, located, strict=True))}))

    return [digests(*map(cell_value, row)) for row in runs[places].itertuples(index=False)]
