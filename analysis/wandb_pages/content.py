"""The content of the pages as plain data: it can be sent to another process. It imports nothing heavy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from experiments.metric import METRICS

Kind = Literal["heading", "text", "markdown", "code", "figure"]


@dataclass(frozen=True)
class Block:
    """A part of the report. `text` is Markdown only for the kind `markdown`; of a figure it is the name of its file."""

    kind: Kind
    text: str
    caption: str = ""


@dataclass(frozen=True)
class RunEntry:
    """A run in the list of runs. `cells`: of the list, in Markdown. `ended`: whether its record is complete."""

    run_id: str
    name: str
    ended: bool
    cells: list[str]


@dataclass(frozen=True)
class Content:
    """What the pages show. In Markdown, every character of a name that could be read as markup is escaped.

    `axes`: (setting, label) for each factor. `colours`: variant -> colour, as in our figures. `opening` and `notes` are
    text, `headline` is Markdown. `columns`: of the list of runs.
    """

    study: str
    title: str
    metric: str
    axes: list[tuple[str, str]]
    colours: dict[str, str]
    opening: list[str]
    headline: list[str]
    notes: list[str]
    blocks: list[Block]
    columns: list[str]
    runs: list[RunEntry]

    @property
    def summary_key(self) -> str:
        """The metric's name in the summary of a W&B run, which has the last and the best value of some metrics."""
        return f"{self.metric}.last" if self.metric in METRICS and not self.metric.startswith("test/") else self.metric

    def to_json(self) -> str:
        """One line of text, for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Content:
        """The content in a line of text."""
        values = json.loads(text)
        values["axes"] = [(path, label) for path, label in values["axes"]]
        values["blocks"] = [Block(**block) for block in values["blocks"]]
        return cls(**{**values, "runs": [RunEntry(**run) for run in values["runs"]]})
