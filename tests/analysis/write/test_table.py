"""Tables as Markdown, LaTeX and CSV: names stay text in each."""

import csv
import io
import re
from pathlib import Path

import pandas as pd
import pdflatex
import pytest
import shown
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from synthetic import add_predictions, write_factorial, write_study

import analysis
from analysis import words
from analysis.findings import analyze
from analysis.report import study_document
from analysis.runs.read import read
from analysis.verdicts import Estimate
from analysis.words import plain
from analysis.write import latex, markdown
from analysis.write.files import make
from analysis.write.table import Column, Table
from experiments.metric import Metric

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b & $x^2$ *c* _d_ `e` [f](http://g)",
    r"\input{h} % #1 ~^ {",
    "\"quo'te\" -- ''",
    "中文 é “quoted” ω̂\n\tname",
]


def table_of(*names: str) -> Table:
    rows = [{"name": name, "mark": mark} for name, mark in zip(names, ("best", "tied", ""))]
    return Table("t", "Caption.", rows, (Column("name", "name", key=True, mark="mark"),), {"name": "name"})


def children_of_cells(table: Table):
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(markdown.table(table))
    return [tokens[at + 1].children for at, token in enumerate(tokens) if token.type == "td_open"]


def text_of(children) -> str:
    return "".join(child.content for child in children if child.type.startswith("text"))


ANY = st.text(min_size=1) | st.text("a1_*`[]()!<>&;\\~$|#.:/@+-= ", min_size=1, max_size=8)
"""Any text, and more often what Markdown could read as markup."""


@given(ANY)
def test_any_text_in_markdown_stays_text(text):
    """In a table: bold, with a dagger, and plain."""
    cells = children_of_cells(table_of(text, text, text))
    marks = [[child.type for child in cell if not child.type.startswith("text")] for cell in cells]
    assert marks == ([["strong_open", "strong_close"], [], []] if plain(text) else [[]] * 3)
    assert [text_of(cell) for cell in cells] == ([plain(text), f"{plain(text)}†", plain(text)])


@given(ANY | st.from_regex(r"[0-9.)#+=>-]{1,3} ?[a0-9-]*", fullmatch=True))
def test_any_paragraph_in_markdown_is_a_paragraph(text):
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(markdown.escaped(text))
    assert [token.type for token in tokens] in (["paragraph_open", "inline", "paragraph_close"], [])
    assert "".join(text_of(token.children) for token in tokens if token.children) == plain(text)


@given(st.text(min_size=1))
def test_any_text_in_csv_is_read_back(text):
    """But for what a spreadsheet would compute."""
    ((head,), (written,)) = csv.reader(io.StringIO(table_of(text).csv(), newline=""))
    assert head == "name" and written in ([text] if text[0] not in "=+-@\t\r" else [text, f"'{text}"])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((text, f"'{text}") for text in ("=1+1", '=HYPERLINK("x")', "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3")),
        *((text, text) for text in ("-0.5", "+3", "-1e-05", "a=1", "learned-1d", "−0.5")),
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_is_text_in_every_csv(tmp_path, text, written):
    """In cells and in heads, in tables and in the frames beside them. Numbers stay numbers."""
    frame = pd.DataFrame({"@m": ["a"] * 2 + [text] * 2, "seed": [0, 1] * 2, "score": [1, 2, 4, 6.5]})
    results = analysis.compare(frame, "score", "@m")
    files = make(study_document(results.findings))
    for name in ("variants", "runs"):
        rows = list(csv.DictReader(io.StringIO(files[f"tables/{name}.csv"].decode(), newline="")))
        assert {row["variant"] for row in rows} == {"a", written}, name
    assert {row["'@m"] for row in rows} == {"a", written}


@given(st.text(min_size=1))
def test_any_text_in_latex_is_ascii_and_balanced(text):
    escaped = latex.escaped(text)
    assert escaped.isascii() and "\n" not in escaped
    bare = re.sub(r"\\[{}$&#%_]|\\[\"'`^~rvc](?=\{)", "", escaped)
    assert bare.count("{") == bare.count("}") and not re.search(r"[#%&_]", bare)


def test_characters_in_latex():
    assert latex.escaped("“é ± 0.5” −1 … α 中") == (
        r"{\textquotedblleft}\'e \ensuremath{\pm} 0.5{\textquotedblright} \ensuremath{-}1 {\textellipsis} "
        r"\ensuremath{\alpha} {\bfseries ?}"
    )


def test_every_character_of_a_table_for_a_paper_has_a_form_in_latex():
    folder = Path(analysis.__file__).parent
    questions = [folder / "questions" / f"{name}.py" for name in ("results", "pairs", "metrics", "cost")]
    others = ("words", "findings/columns", "outputs/paper_table", "outputs/across")
    files = [*questions, *(folder / f"{name}.py" for name in others)]
    forms = latex.escaped("".join(sorted(set("".join(file.read_text() for file in files)))))
    assert "×" in "".join(file.read_text() for file in files) and not re.search(r"\{\[\}[0-9A-F]{4}", forms)


@pdflatex.needed
def test_the_tables_of_a_report_compile_in_latex(tmp_path):
    hostile = {name: 0.9 + 0.01 * index for index, name in enumerate(HOSTILE)}
    options = {"factors": {"model.act": HOSTILE}, "levels": lambda name: {"model.act": name}, "seeds": 3}
    folders = [
        write_study(tmp_path / "usual"),
        write_study(tmp_path / "odd", accuracy=hostile, **options),
        write_factorial(tmp_path / "factorial"),
    ]
    add_predictions(folders[0])
    tables = [table for folder in folders for table in study_document(analyze(read(str(folder)))).as_shown().tables]
    body = "\n".join(map(latex.table, tables))
    assert not re.search(r"U\+[0-9A-F]{4}", body)
    pdflatex.compiles(body, tmp_path)


def test_columns_without_a_text_are_left_out_but_stay_in_the_csv():
    rows = [{"name": "", "known": known, "unknown": float("nan")} for known in (1.0, 2.0)]
    columns = [Column(field, field, words.numbers(), detail=True) for field in ("known", "unknown")]
    key = Column("name", "name", key=True)
    made = Table("t", "Caption.", rows, (key, *columns))
    assert shown.texts(made) == [["", "1.00"], ["", "2.00"]]
    assert [column.label for column in made.shown().columns if not column.detail] == ["name"]
    assert made.csv().splitlines() == ['"name","known","unknown"', '"",1.0,""', '"",2.0,""']


def test_an_estimate_is_three_columns_of_the_csv():
    accuracy, nan = Metric("test/acc"), float("nan")
    estimates = {"a": Estimate(0.72, 0.6703, 0.7697, 3), "b": Estimate(0.5, nan, nan, 1)}
    rows = [{"name": name, "acc": estimate} for name, estimate in estimates.items()]
    made = Table("t", "Caption.", rows, (Column("accuracy", "acc", words.intervals(accuracy)),))
    assert made.csv().splitlines() == ['"name","acc","acc_low","acc_high"', '"a",0.72,0.6703,0.7697', '"b",0.5,"",""']
    assert [(cell.text, cell.sort) for (cell,) in made.shown().rows] == [("72.0 ± 5.0", "0.72"), ("50.0", "0.5")]
