"""Which studies hold the same runs: they are not independent evidence."""

from collections.abc import Mapping
from typing import Any

from analysis.runs.runs import Runs
from experiments.config import DEFAULTS, LOCATIONS, plain


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
    rows = finished[[*dict.fromkeys([*paths, "seed"])]].to_dict("records")
    changed = ({p: v for p, v in plain(row).items() if v not in (None, DEFAULTS.get(p)) or p == "seed"} for row in rows)
    return {frozenset((path, str(value)) for path, value in row.items()) for row in changed}
