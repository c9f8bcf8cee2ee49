"""From records to answers: `vit-report`; `read` and `compare` in Python. Imports wait, so the help answers at once."""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from analysis.outputs.notebook import Results, ResultsByDataset

runpy.run_path(str(Path(__file__).parents[1] / "vit" / "shadowed.py"))["check"]("vit", "experiments")


def compare(
    frame: pd.DataFrame,
    metric: str,
    factor: str | Sequence[str] = (),
    seed: str | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    lower_is_better: bool = False,
    variance: str = "shared",
    failed: str | Sequence[str] = (),
    family: str = "all",
    dataset: str | None = None,
) -> Results | ResultsByDataset:
    """Compare variants over seeds, as `vit-report FILE` does.

    `frame`: one row for each run (runs, columns). `metric`: the column of the result, in any unit; a missing or
    infinite value is a failed run, and its variant is not tested. Higher is better, whatever the metric is
    called, unless `lower_is_better` or the metric is one of ours, such as `test/loss`. `factor`: the column or columns
    of which each combination of values is a variant (default: the only column of text with repeated values). `seed`:
    the column of seeds, whole numbers (default: `seed`); differences are over those that two variants have. `baseline`:
    a variant (default: the first by name), `a`, or `method=a, lr=0.1` for two factors. `margin`: smaller differences
    count as equal, in the unit of the metric; without it, nothing is called equivalent, unless the metric is one of
    ours, such as `test/acc`. `variance`: "paired" for the paired t test of each pair, "shared" where the variants
    share what they tell about their spread, "unpaired" for runs without seeds. `failed`: which rows are failed
    runs, whatever their value: conditions such as "State!=finished" or ["State=crashed", "State=killed"]. `family`:
    "baseline" tests the pairs with the baseline only, if that was decided before the runs; "all" tests every pair.
    `dataset`: a column; variants are compared within each of its values, with one level for all of them together.

    In the result, `pairs[a, b]` holds the difference, `adjusted` with the interval for all pairs together, and the
    verdict that is read from it; `table` a frame with a row for each variant, `runs` one with a row for each run;
    `factors.model` the tests of factors, if there are two or more; `to_latex()` is a table for a paper. With `dataset`,
    `studies[name]` has these of each dataset. A notebook shows the answer and the table of variants. Raises `UserError`
    naming the column and what it holds.
    """
    from analysis.outputs.notebook import results
    from analysis.runs.tabular import read_tables

    factors = [*map(str, factor)] if isinstance(factor, (list, tuple)) else [str(factor)]
    seed, named = (None if name is None else str(name) for name in (seed, baseline))
    asked = (str(metric), factors, seed, named, margin, lower_is_better, variance, _conditions(failed), family)
    command = f"analysis.compare(frame, *{asked if dataset is None else (*asked, dataset)})"
    return results(read_tables(frame, "the table", *asked, dataset, command))


def read(
    source: str | Path,
    metric: str | None = None,
    baseline: str | None = None,
    skip_unreadable: bool = False,
    **table: Any,
) -> Results | ResultsByDataset:
    """The results of a study, as `compare` returns them: what `vit-report SOURCE` reports.

    `source`: the folder of a study or of an export, `wandb:ENTITY/PROJECT[/STUDY]`, or a table of runs such as
    `runs.csv`. `metric`, `baseline`: others than the plan's, as for `vit-report --metric`. `table`: what the columns of
    a table are: `factor`, `seed`, `margin`, `lower_is_better`, `variance`, `family`, `failed` and `dataset` as in
    `compare`, and `where`, the conditions for the rows that are read, such as "dataset=mnist". `skip_unreadable`: leave
    out damaged records. Raises `UserError` naming what is missing.
    """
    from analysis.outputs.notebook import results
    from analysis.runs import read as reading
    from experiments.errors import UserError

    if not isinstance(source, str | Path):
        raise UserError(f"read: expected a folder or a file, not a {type(source).__name__}; compare takes a DataFrame")
    if isinstance(table.get("factor"), str):
        table["factor"] = [table["factor"]]
    table |= {name: _conditions(table[name]) for name in ("where", "failed") if name in table}
    return results(reading.read_each(str(source), skip_unreadable, metric, baseline, **table))


def _conditions(given: str | Sequence[str] | Mapping[str, object]) -> list[str]:
    """Conditions from one, several, or a mapping of columns to values."""
    if isinstance(given, Mapping):
        return [f"{column}={value}" for column, value in given.items()]
    conditions = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if others := [one for one in conditions if not isinstance(one, str)]:
        from experiments.errors import UserError

        raise UserError(f"{others[0]!r} is no condition; expected texts such as 'State=crashed', or columns and values")
    return conditions
