"""From records to answers: `vit-report`; `read` and `compare` in Python. Imports wait, so the help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from analysis.outputs.notebook import Results


from analysis.options import ReportOptions, described
from experiments.errors import UserError


def compare(frame: pd.DataFrame, metric: str = "", factor: Any = (), **asked: Any) -> Results:
    """Compare variants over seeds, as `vit-report FILE` does.

    `frame`: one row for each run. The column `metric` has the results, in any unit; a missing or infinite value is a
    failed run, and its variant is not tested. Each combination of values of the columns `factor` is a variant. The
    other arguments are those of `read`.

    The result has DataFrames: `table`, a row for each variant; `pairs`, indexed by both variants of a pair, with the
    difference, its interval for all pairs together, and the verdict that is read from it; `effects` of a grid of
    factors; `runs`. `plot()` draws the forest plot, `to_latex()` is a table for a paper, `page("DIR")` writes the
    report. With `dataset`, `studies[name]` has these of each dataset. Raises `UserError` naming the column and what it
    holds.
    """
    from analysis.outputs.notebook import results
    from analysis.runs.table import read_table

    options = ReportOptions.of(**{"metric": metric or None, "factor": factor, **asked})
    return results(read_table(frame, "the table", options.called("compare", "frame")))


def read(source: str | Path, metric: str | None = None, **asked: Any) -> Results:
    """The results of a study, as `compare` returns them: what `vit-report SOURCE` reports.

    `source`: the folder of a study or of an export, `wandb:ENTITY/PROJECT`, or a table of runs such as
    `runs.csv`. Raises `UserError` naming what is missing or not allowed. The arguments are flags of `vit-report`, with
    `_` for `-`; several values are a list, and conditions may be a mapping:

    """
    from analysis.outputs.notebook import results
    from analysis.runs.read import read_each

    if not isinstance(source, str | Path):
        raise UserError(f"read: expected a folder or a file, not a {type(source).__name__}; compare takes a DataFrame")
    options = ReportOptions.of(**{"metric": metric, **asked})
    return results(read_each(str(source), options.called("read", repr(str(source)))))


read.__doc__ = f"{read.__doc__}{described()}"
