"""A metric: its name, and what follows from the name for statistics, tables and figures.

`PART/KIND` (test/acc), or `fewshot/DATASET/SHOTS`, `fewshot-val/...` and `fewshot-l2/...` (see
`experiments.evaluation.fewshot`), or `shift/PIXELS` and `permuted/acc` (see `experiments.evaluation.position`). `@N` after
a name means: after N epochs, where training went on (see `eval.epochs`). `@Npx` means: at N pixels (see `eval.img_sizes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

METRIC_NAMES = ("train/loss", "train/acc", "val/loss", "val/acc", "test/loss", "test/acc")
GRADIENT_NORM = "train/gradient_norm"  # of the last step of an epoch, before clipping; it is in no record
FEWSHOT, FEWSHOT_VAL, FEWSHOT_L2 = "fewshot", "fewshot-val", "fewshot-l2"
SHIFT, PERMUTED = "shift", "permuted/acc"
EXPECTED = (
    f"expected {', '.join(METRIC_NAMES)}, or such as fewshot/mnist/5 (needs eval.fewshot), test/acc@10 (eval.epochs), "
    "test/acc@16px (eval.img_sizes), shift/1 (eval.max_shift) or permuted/acc (eval.permuted)"
)
_PARTS = {"train": "training", "val": "validation", "test": "test"}
_KINDS = {"acc": "accuracy", "loss": "loss"}
_FEWSHOTS = {FEWSHOT: "", FEWSHOT_VAL: " on validation images", FEWSHOT_L2: ", L2 chosen on validation images"}
_COUNT = "[1-9][0-9]*"
_NAMES = (
    "|".join(METRIC_NAMES),
    rf"(?:{'|'.join(_FEWSHOTS)})/[a-z0-9-]+/{_COUNT}(?:@{_COUNT})?",
    rf"(?:val|test)/(?:acc|loss)@{_COUNT}(?:px)?",
    rf"{SHIFT}/{_COUNT}|{PERMUTED}",
)
_NAME = re.compile("|".join(_NAMES))


class Metric(str):
    """The name of a metric, as in a record ("test/acc"), which is also the name of its column in a table of runs.

    Accuracies are fractions in the data; tables and figures show them in percent, and differences in points.
    """

    __slots__ = ("__dict__",)

    @cached_property
    def base(self) -> str:
        """The name without the number of epochs or pixels: "test/acc" of "test/acc@10"."""
        return self.partition("@")[0]

    @cached_property
    def epochs(self) -> int | None:
        """The number of epochs after which it is measured; None for the end of training."""
        return int(self.partition("@")[2]) if "@" in self and self.img_size is None else None

    @cached_property
    def img_size(self) -> int | None:
        """The image side in pixels at which it is measured; None for the trained size."""
        return int(self.partition("@")[2].removesuffix("px")) if self.endswith("px") else None

    @property
    def is_fewshot(self) -> bool:
        """Whether it is a few-shot accuracy."""
        return self.partition("/")[0] in _FEWSHOTS

    @property
    def fewshot_dataset(self) -> str | None:
        """The dataset of a few-shot accuracy; None for any other metric."""
        return self.split("/")[1] if self.is_fewshot else None

    @property
    def is_consistency(self) -> bool:
        """Whether it is the consistency of predictions under shifts."""
        return self.startswith(f"{SHIFT}/")

    @property
    def is_share(self) -> bool:
        """Whether the metric is a fraction that tables show in percent."""
        return self.base.endswith("/acc") or self.is_fewshot or self.is_consistency

    @property
    def is_accuracy(self) -> bool:
        """Whether it is what a publication calls the accuracy of a model: on its own images, or few-shot."""
        is_other = self.is_consistency or self == PERMUTED or self.img_size is not None
        return self.is_share and not is_other and not self.startswith("train/")

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better."""
        return self.base.endswith("/loss")

    @property
    def label(self) -> str:
        """The metric in words: "test accuracy"."""
        after = "" if self.epochs is None else f" after {self.epochs} epoch{'s' * (self.epochs != 1)}"
        if self.is_consistency:
            return f"consistency under shifts by {self.rpartition('/')[2]} px"
        if self == PERMUTED:
            return "test accuracy with permuted patches"
        if self.img_size is not None:
            after = f" at {self.img_size} px"
        if self.is_fewshot:
            kind, dataset, shots = self.base.split("/")
            return f"{shots}-shot accuracy ({dataset}{_FEWSHOTS[kind]}){after}"
        part, _, kind = self.base.partition("/")
        return f"{_PARTS.get(part, part)} {_KINDS.get(kind, kind)}".strip() + after

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

    @property
    def settings(self) -> str:
        """The settings without which no run measures it, as text; "" if every run does."""
        wanted = {
            "eval.fewshot and eval.shots": self.is_fewshot,
            "eval.epochs": self.epochs is not None,
            "eval.img_sizes": self.img_size is not None,
            "eval.max_shift": self.is_consistency,
            "eval.permuted": self == PERMUTED,
        }
        return " and ".join(name for name, is_needed in wanted.items() if is_needed)

    @property
    def on_validation(self) -> Metric:
        """The metric of the validation images by which a choice for this metric is made."""
        if self == PERMUTED or self.is_consistency:
            return Metric("val/acc")
        rest = self.partition("/")[2]
        return Metric(f"{FEWSHOT_VAL if self.is_fewshot else 'val'}/{rest}")

    def at(self, side: int) -> Metric:
        """The same metric at another image size, in pixels."""
        return Metric(f"{self.base}@{side}px")

    def after(self, epochs: int) -> Metric:
        """The same metric after a number of epochs."""
        return Metric(f"{self.base}@{epochs}")


METRICS = tuple(map(Metric, METRIC_NAMES))
"""Every metric that each record holds."""


def is_metric(name: object) -> bool:
    """Whether this is the name of a metric."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def known_metrics(names: Iterable[object]) -> list[Metric]:
    """The metrics among some names: `METRICS`, in order, then every other one, in the order of the names."""
    others = [Metric(name) for name in names if isinstance(name, str) and name not in METRICS and is_metric(name)]
    return [*METRICS, *dict.fromkeys(others)]
