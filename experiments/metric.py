"""A metric: its name, and what follows from the name for statistics, tables and figures."""

from __future__ import annotations

METRIC_NAMES = ("train/loss", "train/acc", "val/loss", "val/acc", "test/loss", "test/acc")
_PARTS = {"train": "training", "val": "validation", "test": "test"}
_KINDS = {"acc": "accuracy", "loss": "loss"}


class Metric(str):
    """The name of a metric, as in a record ("test/acc"), which is also the name of its column in a table of runs.

    Accuracies are fractions in the data; tables and figures show them in percent, and differences in points.
    """

    __slots__ = ()

    @property
    def is_share(self) -> bool:
        """Whether the metric is a fraction that tables show in percent."""
        return self.endswith("/acc")

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better."""
        return self.endswith("/loss")

    @property
    def label(self) -> str:
        """The metric in words: "test accuracy"."""
        part, _, kind = self.partition("/")
        return f"{_PARTS.get(part, part)} {_KINDS.get(kind, kind)}".strip()

    @property
    def unit(self) -> str:
        """What the head of a column adds to the label: ", %" or nothing."""
        return ", %" if self.is_share else ""

    @property
    def scale(self) -> float:
        """The factor from the data to what is shown."""
        return 100.0 if self.is_share else 1.0

    @property
    def points(self) -> str:
        """The unit of a difference, with a leading space: " points" or nothing."""
        return " points" if self.is_share else ""


METRICS = tuple(map(Metric, METRIC_NAMES))
"""Every metric that a record holds."""
