"""Tables as Markdown, LaTeX and CSV: names stay text in each."""

import csv
import io
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_tables import baseline_table, cost_table, main_table, metrics_table, pairs_table, spread_table
from synthetic import write_factorial, write_study

from analysis.report import render
from analysis.report.tables.factors import factor_tables
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b & $x^2$ *c* _d_ `e` [f](http://g)",
    r"\input{h} % #1 ~^ {",
    '"quo\'te" --',
    "中文 é\n\tname",
]


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def hostile(tmp_path):
    cells = {name: 0.9 + 0.01 * index for index, name in enumerate(HOSTILE)}
    return results_of(
        tmp_path,
        accuracy=cells,
        factors={"model.act": HOSTILE},
        levels=lambda name: {"model.act": name},
        seeds=3,
        description=HOSTILE[0],
    )


def test_names_are_text_in_markdown(tmp_path):
    table = render.from_frame(main_table(hostile(tmp_path)))
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(render.to_markdown(table))
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children}
    assert kinds <= {"text", "strong_open", "strong_close", "text_special", "html_inline"}
    comments = {child.content for token in inline for child in token.children if child.type == "html_inline"}
    assert comments <= {"<!-- -->"}  # what keeps a bare address from becoming a link
    shown = ["".join(child.content for child in token.children if child.type.startswith("text")) for token in inline]
    assert all(render.plain(name) in shown for name in HOSTILE)


def test_names_are_text_in_latex(tmp_path):
    text = render.to_latex(render.from_frame(main_table(hostile(tmp_path))))
    assert r"\input" not in text and r"\textbackslash{}input\{h\}" in text
    for row in text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines():
        assert len(re.findall(r"(?<!\\)&", row)) == 7 and row.endswith(r" \\") and not re.search(r"(?<!\\)\$x", row)
        assert row.count("{") - row.count(r"\{") == row.count("}") - row.count(r"\}")


def test_latex_has_the_parts_of_a_booktabs_table(tmp_path):
    text = render.to_latex(render.from_frame(main_table(results_of(tmp_path))))
    parts = [
        r"\begin{table}",
        r"\caption{",
        r"\begin{tabular}{",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert not re.search(r"[^\x00-\x7f]", text)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-base)")
def test_latex_compiles(tmp_path):
    usual, odd = results_of(tmp_path / "a"), hostile(tmp_path / "b")
    makers = (main_table, baseline_table, pairs_table, metrics_table, cost_table, spread_table)
    made = [render.from_frame(make(each)) for make in makers for each in (usual, odd)]
    made += factor_tables(analyze(read_folder(write_factorial(tmp_path / "c"))))
    body = "\n".join(render.to_latex(table) for table in made if table is not None)
    source = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + body + "\\end{document}\n"
    (tmp_path / "t.tex").write_text(source)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def one_cell(text):
    return render.Table(
        "t", "caption", (render.Column("name", ("name",), numeric=False),), ((render.Cell(text, (text,)),),)
    )


@given(st.text(min_size=1))
def test_any_text_in_markdown_stays_text(text):
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(render.to_markdown(one_cell(text)))
    (cell,) = [tokens[at + 1] for at, token in enumerate(tokens) if token.type == "td_open"]
    assert {child.type for child in cell.children} <= {"text", "text_special", "html_inline"}
    assert {child.content for child in cell.children if child.type == "html_inline"} <= {"<!-- -->"}
    shown = "".join(child.content for child in cell.children if child.type.startswith("text"))
    assert shown == render.plain(text)


@given(st.text(min_size=1))
def test_any_text_in_csv_is_read_back(text):
    written = render.to_csv(one_cell(text))
    assert list(csv.reader(io.StringIO(written, newline="")))[1:] == [[text]]


@given(st.text(min_size=1))
def test_any_text_in_latex_is_ascii_and_balanced(text):
    escaped = render.latex(text)
    assert escaped.isascii() and "\n" not in escaped
    bare = re.sub(r"\\[{}$&#%_]", "", escaped)
    assert bare.count("{") == bare.count("}") and not re.search(r"[#%&_]", bare)
