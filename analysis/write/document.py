"""Define what a report consists of: a document of sections, and a section's items. No wording and no files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.figures.style import Plot
from analysis.words import plain
from analysis.write.table import Table


@dataclass(frozen=True)
class Facts:
    """A list of terms with a description each; folded away under `heading` where there is one."""

    facts: tuple[tuple[str, str], ...]
    heading: str = ""


@dataclass(frozen=True)
class Code:
    """Commands, or the content of a file."""

    text: str


Item = Table | Plot | Facts | Code


def present(*items: Item | None) -> list[Item]:
    """Return the items of a section that the study has."""
    return [item for item in items if item is not None]


@dataclass(frozen=True)
class Warn:
    """What a reader must know of the numbers: one line, and what more there is to say of it.

    `topic`: what it is about, in a word or two. `changes`: whether it can change a verdict.
    """

    line: str
    detail: str = ""
    topic: str = ""
    changes: bool = False

    @property
    def text(self) -> str:
        """All of it in one line."""
        return plain(f"{self.line} {self.detail}")


def about(topic: str, warnings: Iterable[Warn], changes: bool = False) -> list[Warn]:
    """The warnings with what they are about."""
    return [replace(warning, topic=topic, changes=changes) for warning in warnings]


@dataclass(frozen=True)
class Section:
    """What a report says on one question. `id` is its anchor; without paragraphs and items, the page has no section.

    `title`: the finding, as the title of the report; of several sections, the first. `answer`: the sentences that enter
    the answer at the top of the report. `warnings`: those at its top. `frames`: data that is written as CSV without a
    table of the page, name -> frame.
    """

    id: str
    heading: str
    items: list[Item] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    warnings: list[Warn] = field(default_factory=list)
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class Document:
    """The content of a report. `title`: the finding; `headline`: the answer, by paragraphs.

    `summary`: what was studied; `excluded`: unused records, with the reason.
    """

    title: str
    description: str
    summary: str
    headline: tuple[str, ...]
    warnings: list[Warn]
    sections: list[Section]
    excluded: list[tuple[str, str]] = field(default_factory=list)

    @property
    def topics(self) -> list[str]:
        """What the warnings are about, those that can change a verdict first."""
        ordered = sorted(self.warnings, key=lambda warning: not warning.changes)
        return list(dict.fromkeys(warning.topic for warning in ordered if warning.topic))

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """The data without a table of the page: name -> frame."""
        return {name: frame for section in self.sections for name, frame in section.frames.items()}

    @property
    def tables(self) -> list[Table]:
        """The tables that become files, in the order of the sections."""
        return [table for table in self._items(Table) if not table.listing]

    @property
    def plots(self) -> list[Plot]:
        """Every figure, in the order of the sections."""
        return self._items(Plot)

    def _items(self, kind: type) -> list:
        return [item for section in self.sections for item in section.items if isinstance(item, kind)]

    def as_shown(self) -> Document:
        """Return what the page shows: the excluded records as its last section, each note only at its first table."""
        excluded = [Section("excluded", "Excluded records", [Facts(tuple(self.excluded))])] if self.excluded else []
        seen, sections = set[str](), list[Section]()
        for section in (*self.sections, *excluded):
            items = list[Item]()
            for item in section.items:
                if isinstance(item, Table):
                    notes = tuple(note for note in item.notes if note not in seen)
                    seen.update(notes)
                    item = replace(item, notes=notes)
                if not isinstance(item, Table) or item.columns:
                    items.append(item)
            sections += [replace(section, items=items)] * bool(items or section.paragraphs)
        return replace(self, sections=sections)
