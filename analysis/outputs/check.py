"""The runs that two studies both have, compared: `vit-report check A B`, after a run was repeated."""

from analysis.runs.runs import Runs
from experiments.errors import UserError, first_few, plural
from experiments.metric import known_metrics
from experiments.runs.record import STATUSES

CIRCUMSTANCES = ("hardware", "versions", "commit")


def compare_runs(a: Runs, b: Runs) -> tuple[bool, list[str]]:
    """Whether runs of equal ids ended alike with equal metrics; and what differs, as lines.

    Raises `UserError` where no run of an id has ended in both.
    """
    ended = [study.runs[study.runs["status"].isin(STATUSES)].drop_duplicates("run_id") for study in (a, b)]
    both = ended[0].merge(ended[1], on="run_id", suffixes=(" a", " b"))
    if both.empty:
        raise UserError(f"check: no run of {a.name} that has ended has the run id of one of {b.name}")
    metrics = known_metrics(name for name in a.runs if name in b.runs)
    gaps = {metric: (both[f"{metric} a"] - both[f"{metric} b"]).abs().dropna() for metric in metrics}
    others = [
        f"{metric}: {(gap == 0).sum()} of {len(gap)} equal; largest difference "
        f"{metric.size(float(f'{gap.max():.2g}'))} ({both['run a'][gap.idxmax()]})"
        for metric, gap in gaps.items()
        if gap.any()
    ]
    alike = both["status a"].eq(both["status b"])
    others += [] if alike.all() else [f"status: {alike.sum()} of {len(both)} equal"]
    known, differ = sum(not gap.empty for gap in gaps.values()), f"{len(others)} differ" if others else "all equal"
    said = f"{plural(len(both), 'run')} of equal ids in both, {plural(known, 'metric')}: {differ}"
    lines = [said, *first_few(others, "\n").splitlines()]
    for name in CIRCUMSTANCES:
        sides = [", ".join(sorted({*both[f"{name} {side}"].dropna()})) or "unknown" for side in "ab"]
        lines += [f"{name}: {sides[0]} | {sides[1]}"] * (sides[0] != sides[1])
    return not others, lines
