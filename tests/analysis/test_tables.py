"""Tables: numbers rounded by their intervals, marks, feet, and names that stay text in every spelling."""

import csv
import io
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from synthetic import write_study

from analysis import formatting
from analysis.report import cells, factor_tables, published, render, tables
from analysis.results import analyze
from analysis.sources.folder import read_folder
from analysis.stats.estimates import Estimate
from experiments.config import RunConfig, override

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b & $x^2$ *c* _d_ `e` [f](http://g)",
    r"\input{h} % #1 ~^ {",
    '"quo\'te" --',
    "中文 é\n\tname",
]


def findings_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def exact(tmp_path, values):
    """Results of a study in which variant v's seed s reached exactly values[v][s]."""
    import json

    from experiments.runs import record

    folder = write_study(tmp_path, accuracy=dict.fromkeys(values, 0.5), seeds=len(next(iter(values.values()))))
    for index, runs in enumerate(values.values()):
        for seed, value in enumerate(runs):
            run = folder / f"v{index}-s{seed}"
            summary = json.loads((run / "summary.json").read_text())
            record.write_summary(
                run, {k: v for k, v in {**summary, "test/acc": value}.items() if k not in ("schema", "files", "digest")}
            )
    return analyze(read_folder(folder))


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (97.1234, 0.4321, "97.12 ± 0.43"),
        (97.1234, 4.321, "97.1 ± 4.3"),
        (97.1234, 43.21, "97 ± 43"),
        (0.5, 0.000123, "0.50000 ± 0.00012"),
        (97.1234, 9.96, "97 ± 10"),
        (97.1234, 0.0996, "97.12 ± 0.10"),
        (-0.04, 3.2, "0.0 ± 3.2"),
        (-1.25, 3.2, "−1.2 ± 3.2"),
    ],
)
def test_rounding_follows_the_interval(value, half, text):
    assert formatting.with_interval(Estimate(value, value - half, value + half, 5)) == text


def test_a_value_without_interval_claims_none():
    assert formatting.with_interval(Estimate(0.9712, math.nan, math.nan, 1), 100) == "97.12"
    assert formatting.with_interval(Estimate(math.nan, math.nan, math.nan, 0), 100) == "–"
    assert formatting.bounds(Estimate(1.0, math.nan, math.nan, 1)) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(910_000, "910 k"), (999_999, "1 M"), (1.234e9, "1.23 G"), (12.34, "12.3"), (0, "0"), (math.nan, "–")],
)
def test_magnitudes(value, text):
    assert formatting.magnitude(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4.12, "4.12 s"), (119, "119 s"), (720, "12 min"), (12_240, "3.4 h"), (432_000, "5 d")]
)
def test_durations(value, text):
    assert formatting.seconds(value) == text


def test_main_table_against_a_case_by_hand(tmp_path):
    # none .70 .72 .74: mean .72, sd .02, half = 4.3027 * .02 / sqrt 3 = .04968
    # other differs by .20 .21 .22: mean .21, sd .01, half = .02484
    table = tables.variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.90, 0.93, 0.96]}))
    none, other = ([cell.text for cell in row] for row in table.rows)
    assert none[:5] == ["none", "3", "72.0 ± 5.0", "", "baseline"]
    assert other[:5] == ["learned-1d", "3", "93.0 ± 7.5", "+21.0 ± 2.5", "better"]
    assert other[5:7] == ["64.21", "+2.82"]  # the paper: 0.64206, and 0.64206 - 0.61382
    assert table.rows[1][2].mark == "best" and table.rows[0][2].mark == ""


def test_variants_equivalent_to_the_best_are_marked(tmp_path):
    # learned-1d is .001 below on average, and never more than .003 off: well within the margin of .01
    runs = [0.950, 0.960, 0.955, 0.952, 0.958]
    close = [value - less for value, less in zip(runs, [0.001, 0.002, 0.0, 0.003, -0.001])]
    found = exact(tmp_path, {"none": [0.7, 0.71, 0.72, 0.69, 0.7], "learned-1d": close, "learned-2d": runs})
    assert [row[2].mark for row in tables.variants_table(found).rows] == ["", "equal", "best"]
    assert "†" in tables.variants_table(found).notes[0]
    assert "\\dag{}" in render.to_latex(tables.variants_table(found)) and "†" in render.to_markdown(
        tables.variants_table(found)
    )


def test_the_foot_counts_and_names_every_run_that_is_in_no_mean(tmp_path):
    statuses = {("none", 3): "diverged", ("none", 4): "incomplete", ("learned-1d", 2): "absent"}
    (foot,) = cells.foot(findings_of(tmp_path, statuses=statuses))
    assert "17 of 20 planned runs finished." in foot
    assert re.search(r"1 diverged .*: none, seed 3\.", foot) and re.search(
        r"2 incomplete .*: learned-1d, seed 2; none, seed 4\.", foot
    )


def test_a_diverged_run_is_in_no_mean_and_counts_as_dropped(tmp_path):
    found = findings_of(tmp_path, statuses={("learned-1d", 0): "diverged"})
    rows = {row[0].text: row for row in tables.comparisons_table(found).rows}
    assert rows["learned-1d"][1].text == "4 (1)" and rows["sinusoidal"][1].text == "5"
    assert found.mean("learned-1d").n == 4


def test_csv_holds_the_data_in_full(tmp_path):
    found = findings_of(tmp_path)
    rows = list(csv.DictReader(io.StringIO(render.to_csv(tables.variants_table(found)))))
    for row in rows:
        values = np.array(list(found.values[row["variant"]].values()))
        assert float(row["test/acc"]) == pytest.approx(values.mean(), rel=1e-14) and int(row["n"]) == 5
    assert [float(row["flops_per_image"]) for row in rows] == [9.1e5, 9.2e5, 9.3e5, 9.4e5]
    assert float(rows[1]["paper"] or "nan") != float(rows[1]["paper"] or "nan")  # no published figure: empty


def test_the_papers_layout_has_all_its_figures_and_ours(tmp_path):
    table = published.table8(findings_of(tmp_path))
    text = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert [text[kind][0] for kind in ("none", "learned-1d", "learned-2d", "relative")] == [
        "61.38",
        "64.21",
        "64.00",
        "64.03",
    ]
    assert text["learned-1d"][2] == "63.96" and text["learned-2d"][4] == "64.02"
    assert text["relative"][1] == "–" and text["sinusoidal"][0] == "–" and text["sinusoidal"][1].endswith("(5)")


def test_the_papers_layout_goes_by_the_plan_where_a_run_has_not_ended(tmp_path):
    """learned-1d's first run has left no record of its site: the study's base says that it is every layer."""
    base = override(RunConfig(), {"model.pos_embed": "learned-1d", "model.pos_site": "every-layer"}).model_dump()
    found = findings_of(
        tmp_path, accuracy={"learned-1d": 0.9, "learned-2d": 0.8}, base=base, statuses={("learned-1d", 0): "incomplete"}
    )
    rows = {row[0].text: row[1:] for row in published.table8(found).rows}
    heads = [column.title for column in published.table8(found).columns[1:]]
    for kind in ("learned-1d", "learned-2d"):
        filled = [head for head, cell in zip(heads, rows[kind]) if "ours" in head and cell.text != "–"]
        assert filled == ["Every Layer: ours, %"]


def test_no_published_column_where_the_position_is_not_studied(tmp_path):
    found = findings_of(
        tmp_path,
        accuracy={"1": 0.8, "2": 0.9},
        factors={"model.depth": [1, 2]},
        levels=lambda v: {"model.depth": int(v)},
    )
    assert (
        published.table8(found) is None and "paper" not in render.to_csv(tables.variants_table(found)).splitlines()[0]
    )


def hostile(tmp_path):
    cells = {name: 0.9 + 0.01 * index for index, name in enumerate(HOSTILE)}
    return findings_of(
        tmp_path,
        accuracy=cells,
        factors={"model.act": HOSTILE},
        levels=lambda name: {"model.act": name},
        seeds=3,
        description=HOSTILE[0],
    )


def test_names_are_text_in_markdown(tmp_path):
    table = tables.variants_table(hostile(tmp_path))
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(render.to_markdown(table))
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children}
    assert kinds <= {"text", "strong_open", "strong_close", "text_special", "html_inline"}
    comments = {child.content for token in inline for child in token.children if child.type == "html_inline"}
    assert comments <= {"<!-- -->"}  # what keeps a bare address from becoming a link
    shown = ["".join(child.content for child in token.children if child.type.startswith("text")) for token in inline]
    assert all(render.plain(name) in shown for name in HOSTILE)


def test_names_are_text_in_latex(tmp_path):
    text = render.to_latex(tables.variants_table(hostile(tmp_path)))
    assert r"\input" not in text and r"\textbackslash{}input\{h\}" in text
    for row in text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines():
        assert len(re.findall(r"(?<!\\)&", row)) == 7 and row.endswith(r" \\") and not re.search(r"(?<!\\)\$x", row)
        assert row.count("{") - row.count(r"\{") == row.count("}") - row.count(r"\}")


def test_latex_has_the_parts_of_a_booktabs_table(tmp_path):
    text = render.to_latex(tables.variants_table(findings_of(tmp_path)))
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
    found, odd = findings_of(tmp_path / "a"), hostile(tmp_path / "b")
    makers = (
        tables.variants_table,
        tables.comparisons_table,
        tables.pairs_table,
        tables.metrics_table,
        tables.cost_table,
        published.table8,
    )
    made = [
        make(each) for make in (*makers, tables.spread_table, tables.claims_table) for each in (found, odd)
    ] + factor_tables.factor_tables(factorial(tmp_path / "c"))
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


def test_one_seed_says_so(tmp_path):
    table = tables.variants_table(findings_of(tmp_path, seeds=1))
    assert "±" not in table.rows[1][2].text and {row[4].text for row in table.rows} == {
        "baseline",
        "not enough evidence",
    }
    assert any("one seed" in note for note in table.notes)


def test_cost_against_the_baseline(tmp_path):
    table = tables.cost_table(findings_of(tmp_path))
    assert (
        table.rows[0][7].text == "× 1.00" and table.rows[3][7].text == "× 1.07"
    )  # 4.3 s over 4.0 s: 1.075, which binary rounds down
    assert table.rows[2][1].text == "26,000" and table.rows[2][3].text == "930 k"


def test_a_runs_row_is_its_own_difference(tmp_path):
    found = findings_of(tmp_path, seeds=3)
    table = tables.runs_table(found, "learned-1d")
    at = [column.title for column in table.columns].index("difference to none, points")
    for seed, row in enumerate(table.rows):
        by_hand = 100 * (found.values["learned-1d"][seed] - found.values["none"][seed])
        assert row[at].text == f"+{by_hand:.2f}" and row[0].href == f"../v2-s{seed}/summary.json"


def factorial(tmp_path, **options):
    cells = {f"depth={d}, head={h}": (d, h) for d in (1, 2) for h in ("logits", "softmax")}
    return findings_of(
        tmp_path,
        accuracy=dict(zip(cells, (0.80, 0.70, 0.90, 0.75))),
        factors={"model.depth": [1, 2], "model.head": ["logits", "softmax"]},
        levels=lambda v: dict(zip(("model.depth", "model.head"), cells[v])),
        **options,
    )


def test_factors_against_a_case_by_hand(tmp_path):
    # cells 80 70 / 90 75 without scatter: rows 75 and 82.5, columns 85 and 72.5, grand 78.75, interaction +-1.25
    tables_ = {
        table.name: [[cell.text for cell in row] for row in table.rows]
        for table in factor_tables.factor_tables(factorial(tmp_path, spread=1e-7))
    }
    numbers_ = [[float(text.split()[0].replace("−", "-")) for text in row[2:4]] for row in tables_["effects"]]
    assert [row[:2] for row in tables_["effects"]] == [
        ["depth", "1"],
        ["depth", "2"],
        ["head", "logits"],
        ["head", "softmax"],
    ]
    assert np.array(numbers_) == pytest.approx(
        np.array([[75, -3.75], [82.5, 3.75], [85, 6.25], [72.5, -6.25]]), abs=1e-3
    )
    interaction = [float(row[3].split()[0].replace("−", "-")) for row in tables_["interactions"]]
    assert interaction == pytest.approx([-1.25, 1.25, 1.25, -1.25], abs=1e-3)
    assert [row[:3] for row in tables_["contrasts"]] == [["depth", "2", "1"], ["head", "softmax", "logits"]]
    assert [row[0] for row in tables_["variance"]] == ["depth", "head", "depth × head", "seed", "residual"]


def test_one_factor_has_no_factor_tables(tmp_path):
    assert factor_tables.factor_tables(findings_of(tmp_path)) == []


def test_spread_against_numpy(tmp_path):
    found = findings_of(tmp_path, seeds=8)
    for row in csv.DictReader(io.StringIO(render.to_csv(tables.spread_table(found)))):
        values = sorted(found.values[row["variant"]].values())
        assert float(row["sd"]) == pytest.approx(np.std(values, ddof=1), rel=1e-12)
        assert float(row["iqm"]) == pytest.approx(np.mean(values[2:6]), rel=1e-12)  # a quarter of eight at each end
        assert (float(row["lowest"]), float(row["highest"])) == (values[0], values[-1])


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
def test_any_text_in_csv_comes_back(text):
    written = render.to_csv(one_cell(text))
    assert list(csv.reader(io.StringIO(written, newline="")))[1:] == [[text]]


@given(st.text(min_size=1))
def test_any_text_in_latex_is_ascii_and_balanced(text):
    escaped = render.latex(text)
    assert escaped.isascii() and "\n" not in escaped
    bare = re.sub(r"\\[{}$&#%_]", "", escaped)
    assert bare.count("{") == bare.count("}") and not re.search(r"[#%&_]", bare)
