"""Which studies hold the same runs: they are not independent evidence."""

from collections.abc import Mapping
from typing import Any

from analysis.claims.claim import KIND, SITE, site_of
from analysis.runs.runs import Runs
from experiments.config import DEFAULTS, LOCATIONS
from vit.registry import REGISTRY


def independent_groups(studies: Mapping[str, Runs]) -> list[list[str]]:
    """The studies in groups. Two studies are in one group where a run of each has the same settings and the same seed.

    The precision, the compiler and what is evaluated do not count: they change the rounding, or nothing.
    """
    groups: list[tuple[list[str], set[Any]]] = []
    for name, study in studies.items():
        names, runs = [name], _runs(study)
        for group in [group for group in groups if group[1] & runs]:
            names, runs = [*group[0], *names], group[1] | runs
            groups.remove(group)
        groups.append((names, runs))
    return [names for names, _ in groups]


def _runs(study: Runs) -> set[Any]:
    """What each finished run computes: its settings that differ from the defaults, and its seed."""
    finished = study.of("finished")
    ignored = {*LOCATIONS, "train.precision", "train.compile", *(path for path in DEFAULTS if path.startswith("eval."))}
    paths = [path for path in finished.columns if path in DEFAULTS and path not in ignored]
    return {_key(row) for row in finished[[*dict.fromkeys([*paths, "seed"])]].to_dict("records")}


def _key(row: dict[str, Any]) -> Any:
    kind = row.get(KIND, "none")
    usual = {f"model.{field}": value for field, value in REGISTRY[kind].defaults.items()} if kind in REGISTRY else {}
    row = {**row, SITE: site_of(kind, row.get(SITE))}
    plain = {p: value for p, value in row.items() if value is not None and value not in (DEFAULTS.get(p), usual.get(p))}
    return frozenset((path, str(value)) for path, value in {**plain, "seed": row["seed"]}.items())
