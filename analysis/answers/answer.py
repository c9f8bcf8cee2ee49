"""What a report says on one question."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis.figures.labels import Styles
from analysis.write.document import Section


@dataclass(frozen=True)
class Answer:
    """The answer to one question. Sections without content are left out.

    `sections` makes them: a page of many studies shows their headlines only, and drawing takes most of the time.
    `headline`: its paragraphs in the answer that opens the report. `methods`: terms and what they mean. `frames`: data
    that is written as CSV without a table of the page, name -> frame.
    """

    sections: Callable[[], Sequence[Section]] = tuple
    headline: Sequence[str] = ()
    methods: Sequence[tuple[str, str]] = ()
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The page that answers are made for: how it draws each variant, and its folder.

    `inside`: whether it shows trained models and test images, which takes the dataset and the checkpoints;
    `skip_unreadable`: whether damaged checkpoints are left out.
    """

    styles: Styles
    out: Path | None = None
    inside: bool = False
    skip_unreadable: bool = False
