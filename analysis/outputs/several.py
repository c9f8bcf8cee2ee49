"""Make the index of the studies in a folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from analysis import words
from analysis.findings import analyze, analyze_each
from analysis.findings.conduct import Conduct
from analysis.outputs.across import answer
from analysis.report import headline, study_sections
from analysis.runs.by_dataset import by_dataset, datasets_of
from analysis.runs.runs import ENDED, Runs
from analysis.write.document import Document, Section
from analysis.write.table import Column, Table
from experiments.errors import UserError, shell_words

COLUMNS = (Column("answer", "answer"), *(Column(name, name, detail=True) for name in ("state", "setting", "command")))
CAPTION = "A study links to its report, where there is one. Answer: the first paragraph of its answer."
SETTING = {
    "data.name": "{}",
    "model.patch_size": "patches of {} px",
    "model.embed_dim": "width {}",
    "model.depth": "depth {}",
    "train.epochs": "{} epochs",
}  # a setting that the index shows of a study -> its text


def index_document(folder: Path, studies: Mapping[Path, Runs | UserError], out: Path) -> Document:
    """Make the index of studies; `studies`: folder -> runs, or why it cannot be read."""
    rows, left, links = [], list[str](), dict[str, str]()
    for at, study in studies.items():
        page = at / "report" / "report.html"
        name = str(at.relative_to(folder))
        links[name] = quote(os.path.relpath(page, out)) if page.is_file() else ""
        row, complete = _index_row(study)
        rows.append({"study": name, **row})
        left += [] if complete else [f"{name}: {row['state']}"]
    key = Column("study", "study", key=True, link=lambda row: links[row["study"]])
    table = Table("studies", CAPTION, rows, (key, *COLUMNS))
    said = f"{words.plural(len(rows), 'study', 'studies')}, {len(rows) - len(left)} complete."
    title = f"Studies in {folder.resolve().name}"
    return Document(title, "", f"{title}.", (said, *left), [], [Section("studies", "Studies", [table])])


def _index_row(study: Runs | UserError) -> tuple[dict[str, str], bool]:
    """A study's state, the first paragraph of its answer and its setting; last, whether it is complete."""
    row = {"state": "", "answer": "", "setting": "", "command": ""}
    try:
        if isinstance(study, UserError):
            raise study
        conduct = Conduct(study)
        row["state"], complete = _state(conduct), "incomplete" not in conduct.excluded
        if study.plan.base:
            row |= {"setting": _setting(study), "command": shell_words(study.plan.command or "")}
        if study.of(*ENDED).empty:
            return row, complete
        if len(datasets_of(study)) > 1:
            return row | {"answer": " ".join(answer(analyze_each(by_dataset([study]))))}, complete
        return row | {"answer": headline(study_sections(analyze(study)))[0]}, complete
    except UserError as error:
        return row | {"state": f"Not read: {error}"}, False


def _state(conduct: Conduct) -> str:
    left = "In progress" if "incomplete" in conduct.excluded else "Complete"
    others = "".join(f", {len(runs)} {status}" for status, runs in conduct.excluded.items())
    return f"{left}: {conduct.finished} of {conduct.planned} runs finished{others}."


def _setting(study: Runs) -> str:
    """What the runs of a study share: dataset, images, size of the model, epochs; and its factors."""
    recorded = sorted({int(n) for n in study.runs["train_images"].dropna()})
    images = recorded or [n for n in [study.base.get("data.train_limit")] if n]
    settings = {path: study.base[path] for path in SETTING if path in study.base and path not in study.varied}
    parts = {path: SETTING[path].format(value) for path, value in settings.items()}
    counted = f"{words.listing([words.count(n) for n in images])} training images" if images else ""
    shown = filter(None, [parts.pop("data.name", ""), counted, *parts.values()])
    return f"{', '.join(shown)}; factors: {words.listing(list(study.factors))}"
