"""The metrics: one table of what a run measures, and what follows from a name for statistics, tables and figures.

A new metric of each epoch is one line of `TABLE`, and one line in `experiments.training.fit`, which computes it from an
`Evaluation`; what needs the logits is computed in `predictions` of `experiments.training.trainer` first. `@N` after a
name means: after N epochs, where training went on (see `eval.epochs`). `@Npx` means: at N pixels (see
`eval.img_sizes`), `@Npx/interpolated` with interpolated positions (see `eval.interpolated`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from experiments.errors import UserError

FEWSHOT, FEWSHOT_VAL, FEWSHOT_L2 = "fewshot", "fewshot-val", "fewshot-l2"
SHIFT, PERMUTED = "shift", "permuted/acc"
_NUMBER = "[1-9][0-9]*"
_SHOTS = f"/(?P<dataset>[A-Za-z0-9:._-]+)/(?P<shots>{_NUMBER})"
_EPOCHS = f"(?:@(?P<epochs>{_NUMBER}))?"
_ANY = f"(?:@(?:(?P<epochs>{_NUMBER})|(?P<px>{_NUMBER})px(?P<interpolated>/interpolated)?))?"


@dataclass(frozen=True)
class Entry:
    """A metric, or a family of metrics, such as those for each number of shots.

    `name`: a regular expression for a family, whose groups `label` repeats. `split`: its images. `unit`: "%" for a
    fraction that is shown in percent. `better`: "higher" or "lower"; "" for what is only watched: runs are not compared
    by it, and it may be infinite in a run that does not diverge. `needs`: settings without which no run measures it.
    `end`: what may follow the name; for "@Npx", `experiments.evaluation.measure` has to compute it.
    """

    name: str
    label: str
    split: str
    unit: str = "%"
    better: str = "higher"
    needs: str = ""
    end: str = ""


def _few(kind: str, split: str, said: str = "") -> Entry:
    label = f"{{shots}}-shot accuracy ({{dataset}}{said})"
    return Entry(kind + _SHOTS, label, split, needs="eval.fewshot and eval.shots", end=_EPOCHS)


TABLE = (
    Entry("lr", "learning rate", "train", "", ""),
    Entry("train/loss", "training loss", "train", "", "lower"),
    Entry("train/acc", "training accuracy", "train"),
    Entry("train/grad_norm", "gradient norm of the last step", "train", "", ""),
    Entry("val/loss", "validation loss", "val", "", "lower", end=_ANY),
    Entry("val/acc", "validation accuracy", "val", end=_ANY),
    Entry("test/loss", "test loss", "test", "", "lower", end=_ANY),
    Entry("test/acc", "test accuracy", "test", end=_ANY),
    _few(FEWSHOT, "test"),
    _few(FEWSHOT_VAL, "val", " on validation images"),
    _few(FEWSHOT_L2, "test", ", L2 chosen on validation images"),
    Entry(f"{SHIFT}/(?P<pixels>{_NUMBER})", "consistency under shifts by {pixels} px", "test", needs="eval.max_shift"),
    Entry(PERMUTED, "test accuracy with permuted patches", "test", needs="eval.permuted"),
)


@lru_cache(maxsize=1000)
def _find(name: str) -> tuple[Entry, dict[str, str]]:
    """The line of the table for a name, and the varying parts of the name. An unknown name is its own label."""
    matches = ((entry, re.fullmatch(entry.name + entry.end, name)) for entry in TABLE)
    return next(((entry, match.groupdict()) for entry, match in matches if match), (Entry(name, name, "", "", ""), {}))


class Metric(str):
    """The name of a metric, as in a record ("test/acc"), which is also the name of its column in a table of runs.

    Accuracies are fractions in the data; tables and figures show them in percent, and differences in points. `better`:
    "higher" or "lower" for a column of a user's table, which `TABLE` does not know. `label`: what the user calls it.
    """

    __slots__ = ("_better", "_label")
    _better: str
    _label: str

    def __new__(cls, name: str, better: str = "", label: str = "") -> Metric:
        metric = super().__new__(cls, name)
        metric._better = better or getattr(name, "_better", "")
        metric._label = label or getattr(name, "_label", "")
        return metric

    @property
    def _entry(self) -> Entry:
        return Entry(self, self, "", "", self._better) if self._better else _find(self)[0]

    def _part(self, name: str) -> int | None:
        text = _find(self)[1].get(name)
        return None if text is None else int(text)

    @property
    def base(self) -> str:
        """The name without the number of epochs or pixels: "test/acc" of "test/acc@10"."""
        return self.partition("@")[0] + "/interpolated" * self.is_interpolated

    @property
    def epochs(self) -> int | None:
        """The number of epochs after which it is measured; None for the end of training."""
        return self._part("epochs")

    @property
    def img_size(self) -> int | None:
        """The image side in pixels at which it is measured; None for the trained size."""
        return self._part("px")

    @property
    def is_interpolated(self) -> bool:
        return _find(self)[1].get("interpolated") is not None

    @property
    def fewshot_dataset(self) -> str | None:
        """The dataset of a few-shot accuracy; None for any other metric."""
        return _find(self)[1].get("dataset")

    @property
    def is_consistency(self) -> bool:
        return self.startswith(f"{SHIFT}/")

    @property
    def is_share(self) -> bool:
        """Whether the metric is a fraction that tables show in percent."""
        return self._entry.unit == "%"

    @property
    def is_accuracy(self) -> bool:
        """Whether it is what a publication calls the accuracy of a model: on its own images, or few-shot."""
        is_other = self.is_consistency or self == PERMUTED or self.img_size is not None
        return self.is_share and not is_other and self._entry.split != "train"

    @property
    def is_column(self) -> bool:
        """Whether it is a column of a user's table, which has no unit, and whose name is shown as it is."""
        return bool(self._better)

    @property
    def is_renamed(self) -> bool:
        return bool(self._label)

    @property
    def lower_is_better(self) -> bool:
        return self._entry.better == "lower"

    @property
    def is_loss(self) -> bool:
        """Whether it is a cross-entropy, which is never below 0."""
        return self._entry.name.endswith("/loss") and not self._better

    @property
    def label(self) -> str:
        """The metric in words: "test accuracy"."""
        if self._label:
            return self._label
        label, parts = self._entry.label, _find(self)[1]
        after = "" if self.epochs is None else f" after {self.epochs} epoch{'s' * (self.epochs != 1)}"
        at = "" if self.img_size is None else f" at {self.img_size} px"
        return (
            (label.format(**parts) if parts else label) + after + at + ", interpolated positions" * self.is_interpolated
        )

    @property
    def unit(self) -> str:
        """What the head of a column adds to the label: ", %" or nothing."""
        return ", %" if self.is_share else ""

    @property
    def scale(self) -> float:
        """The factor from the data to what is shown."""
        return 100.0 if self.is_share else 1.0

    @property
    def difference_unit(self) -> str:
        """The unit of a difference as the end of a label: ", points" or nothing."""
        return ", points" if self.is_share else ""

    @property
    def points(self) -> str:
        """The unit of a difference, with a leading space: " points" or nothing."""
        return " points" if self.is_share else ""

    def size(self, difference: float) -> str:
        """The size of a difference as a reader means it: "1 point" of an accuracy, "0.05" of a loss."""
        text = f"{difference * self.scale:g}"
        return text + (self.points.removesuffix("s") if text == "1" else self.points)

    def at(self, side: int, interpolated: bool = False) -> Metric:
        """The same metric at another image size, in pixels, with positions as they are or interpolated."""
        return Metric(f"{self.base}@{side}px" + "/interpolated" * interpolated)

    def after(self, epochs: int) -> Metric:
        return Metric(f"{self.base}@{epochs}")


SMALLEST, LARGEST = 1e-100, 1e100
"""Limits of a value other than 0: squares of what lies beyond are no floating-point numbers."""
MAX_MARGIN = 0.5  # of accuracies; a larger one is meant in percent
METRICS = tuple(Metric(entry.name) for entry in TABLE if entry.better and not entry.needs)
"""Every metric that each record holds and that runs are compared by."""
REPEATED = tuple(Metric(entry.name) for entry in TABLE if entry.end == _ANY)
"""Those of `METRICS` that are also measured after other numbers of epochs, and at other image sizes."""
EXPECTED = (
    f"expected {', '.join(METRICS)}, or such as fewshot/mnist/5 (needs eval.fewshot), test/acc@10 (eval.epochs), "
    "test/acc@16px (eval.img_sizes), shift/1 (eval.max_shift) or permuted/acc (eval.permuted)"
)


def is_metric(name: object) -> bool:
    """Whether this is the name of a metric that runs can be compared by."""
    return isinstance(name, str) and Metric(name)._entry.better != ""


def metric_of_column(column: str, lower_is_better: bool = False) -> Metric:
    """The metric in a column of a user's table: one of `TABLE`, else one without a unit. Raises `UserError`."""
    if not is_metric(column):
        return Metric(column, "lower" if lower_is_better else "higher")
    if lower_is_better > Metric(column).lower_is_better:
        raise UserError(f"lower_is_better: {column} is a metric of ours, of which more is better; rename the column")
    return Metric(column)


def known_metrics(names: Iterable[object]) -> list[Metric]:
    """The metrics among some names: `METRICS`, in order, then every other one, in the order of the names."""
    others = [Metric(name) for name in names if isinstance(name, str) and name not in METRICS and is_metric(name)]
    return [*METRICS, *dict.fromkeys(others)]


def last_and_best(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The last value of every metric of the epochs, and the best one: {"val/acc": 0.9, "best/val/acc": 0.92}."""
    summary = {}
    for metric in filter(is_metric, rows[-1]):
        summary[metric] = rows[-1][metric]
        if finite := [row[metric] for row in rows if math.isfinite(row[metric])]:
            summary[f"best/{metric}"] = min(finite) if Metric(metric).lower_is_better else max(finite)
    return summary
