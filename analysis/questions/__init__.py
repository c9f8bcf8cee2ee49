"""The questions of a report, one file each: what it computes, says and shows. A new question is a line in `ORDER`.

Questions never import each other. What two of them share is in `findings` or `words`.
"""

from collections.abc import Callable

from analysis.findings import Findings
from analysis.questions import (
    conditions,
    conduct,
    cost,
    factors,
    looks,
    methods,
    metrics,
    models,
    pairs,
    provenance,
    records,
    results,
    table8,
    tuning,
)
from analysis.write.document import Section

Question = Callable[[Findings], Section | None]

ORDER: tuple[Question, ...] = (
    conduct.question,
    factors.question,  # first: then come the combinations of their levels
    results.question,
    pairs.question,
    table8.question,
    factors.untested,
    conditions.question,
    metrics.curves,
    tuning.question,
    cost.question,
    metrics.question,
    models.question,
    looks.question,
    methods.question,
    provenance.question,
    provenance.reproduce,
    records.question,
)
"""The order of the sections, of what they say in the answer, and of their warnings."""
