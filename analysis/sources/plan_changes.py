"""Changes of a study's plan after runs had started: what was changed, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
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


@dataclass(frozen=True)
class PlanChange:
    """A field of the plan that differs from what it was when runs started.

    `before`: its value then -> number of these runs; {None: number} where records hold only its digest. `after`: the start
    of the last of these runs. `until`: when the change had been made: the start of the first later run, or else the time
    of study.json. Times are ISO 8601 in UTC, None where unknown.
    """

    field: str
    before: dict[Any, int]
    after: str | None
    until: str | None


def plan_changes(study: RunsTable) -> list[PlanChange]:
    """The changed fields, metric, margin, baseline and seeds first; none for runs whose plan is not known.

    Older records hold less and are not counted.
    """
    if not study.recorded:
        return []
    ended = study.of(*ENDED)
    changes = []
    for name in record.COMPARISON:
        then, now = ended[f"planned_{name}"].dropna(), getattr(study.stated_plan, name)
        changes.append(_change(study, name, then[then != (level_text(now) if isinstance(now, list) else now)]))
    digests = ended["planned_fields"].dropna().map(lambda text: dict(part.split("=") for part in text.split()))
    today = _digests_today(study, ended.loc[digests.index])
    named = {field for fields in (*digests, *today) for field in fields}
    for name in sorted(named - set(record.COMPARISON)):
        differs = [then.get(name) != now.get(name) for then, now in zip(digests, today, strict=True)]
        changes.append(_change(study, name, pd.Series(None, index=digests.index[differs], dtype=object)))
    return [change for change in changes if change.before]


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


def _change(study: RunsTable, field: str, values: pd.Series) -> PlanChange:
    """`values`: the field's value at the start of each run where it was another one."""
    counts = {None if pd.isna(key) else key: int(n) for key, n in values.value_counts(sort=False, dropna=False).items()}
    started = study.of(*ENDED)["started"].dropna().sort_values()
    after = started[started.index.isin(values.index)].max() if len(values) else None
    later = started[~started.index.isin(values.index) & (started > (after or ""))]
    return PlanChange(field, counts, after, later.iloc[0] if len(later) else _plan_time(study))


def _plan_time(study: RunsTable) -> str | None:
    """When study.json was last written; None for a source without one."""
    if study.folder is None or not (path := study.folder / record.STUDY).is_file():
        return None
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
