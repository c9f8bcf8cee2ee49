"""Define what a report consists of: a document of sections, and a section's items. No wording and no files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.figures.style import Plot
from analysis.report import table as framed
from analysis.report.render import Table, from_frame


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


def present(*items: Item | framed.Table | None) -> list[Item]:
    """Return the items of a section that the study has."""
    return [from_frame(item) if isinstance(item, framed.Table) else item for item in items if item is not None]


@dataclass(frozen=True)
class Section:
    """A section of a report: paragraphs, then items. `id` is its anchor."""

    id: str
    heading: str
    items: list[Item] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """The content of a report.

    `headline`: the answer, one paragraph each. `runs`: the table of the section "Runs". `excluded`: records that are
    not used, with the reason. `files`: tables that are written as files and are not shown. `frames`: data that is
    written as CSV. `linked`: whether the records lie where the table of runs links to.
    """

    title: str
    description: str
    summary: str
    headline: tuple[str, ...]
    warnings: list[str]
    sections: list[Section]
    runs: Table | None = None
    excluded: list[tuple[str, str]] = field(default_factory=list)
    files: list[Table] = field(default_factory=list)
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    linked: bool = False

    @property
    def tables(self) -> list[Table]:
        """Every table that becomes a file; the tables of runs do not, since all runs are in one CSV."""
        shown = [item for section in self.sections for item in section.items if isinstance(item, Table)]
        return [*shown, *self.files]

    @property
    def plots(self) -> list[Plot]:
        """Every figure, in the order of the sections."""
        return [item for section in self.sections for item in section.items if isinstance(item, Plot)]

    def with_notes_once(self) -> Document:
        """Return the document with each note only at the first table that has it."""
        seen: set[str] = set()
        return replace(self, sections=[_with_notes_once(section, seen) for section in self.sections])


def _with_notes_once(section: Section, seen: set[str]) -> Section:
    items: list[Item] = []
    for item in section.items:
        if isinstance(item, Table):
            new = tuple(note for note in item.notes if note not in seen)
            seen.update(new)
            item = replace(item, notes=new)
        items.append(item)
    return replace(section, items=items)
