"""Tables for a paper: marks, caption, standard deviations, the paper's own names, and LaTeX that compiles."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pdflatex
import pytest
from shown import rows
from synthetic import exact, results_of, write_study

import analysis
from analysis.findings import analyze
from analysis.options import ReportOptions
from analysis.outputs.paper_table import paper_table
from analysis.report import study_document
from analysis.runs.folder import read_folder
from analysis.write import files, latex

REFERENCE = Path(analysis.__file__).parent / "reference"
VALUES = {
    "none": [0.70, 0.72, 0.71, 0.69, 0.70],
    "learned-1d": [0.901, 0.912, 0.905, 0.897, 0.903],
    "learned-2d": [0.900, 0.911, 0.907, 0.899, 0.902],
}
FACTORS = {
    "embedding": ["none", "learned-1d", "learned-2d"],
    "optimizer": ["adamw", "sam"],
    "weight decay": [0.01, 0.1],
}


def test_the_best_is_bold_and_what_is_not_shown_to_differ_has_a_mark(tmp_path):
    table = paper_table(exact(tmp_path, VALUES), None)
    body = latex.table(table)
    assert re.search(r"learned-2d & 5 & \\textbf\{90.38 \S+ 0.63\} &", body)
    assert re.search(r"learned-1d & 5 & 90.36 \S+ 0.69\$\^\\dagger\$ &", body) and body.count("dagger") == 1
    assert (
        "Bold: the best mean. †: equivalent to it (within ±1 point), or not shown to be worse than it." in table.caption
    )
    assert (
        "95 % intervals for all pairs of variants together (Bonferroni; t tests with the spread of all variants)"
        in table.caption
    )


def test_standard_deviations_are_those_of_the_runs(tmp_path):
    table = paper_table(exact(tmp_path, VALUES), ["variant", "test/acc"], "sd")
    deviation = pd.DataFrame(VALUES).std()
    assert [row["test accuracy, %"].split(" ± ")[1] for row in rows(table)] == [f"{100 * sd:.2f}" for sd in deviation]
    assert table.data["test/acc_sd"].tolist() == pytest.approx(deviation.tolist())
    assert "standard deviation of the runs" in table.caption and "intervals" not in table.caption


def test_a_name_of_the_paper_stands_in_tables_and_figures(tmp_path):
    study = read_folder(write_study(tmp_path))
    findings = analyze(study, ReportOptions(rename=(r"learned-1d=$\theta_{1D}$", "none=no & none")))
    body = latex.table(paper_table(findings.as_typed, None))
    assert "\n$\\theta_{1D}$ &" in body and "\nno \\& none &" in body and "learned-1d" not in body
    drawn = files.make(study_document(findings))
    assert b"no &amp; none" in drawn["figures/forest.svg"] and b"learned-1d" not in drawn["figures/forest.svg"]
    assert findings.study.plan == study.plan and "learned-1d" in findings.comparisons.versus  # only what is shown
    labelled = results_of(tmp_path / "labels", labels={"sinusoidal": "fixed sines"})
    assert labelled.variants.brief["sinusoidal"] == "fixed sines" and labelled.conduct.changes == {}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r"Ours $\theta$ net", r"Ours $\theta$ net"),
        (r"$a$ & $b$", r"$a$ \& $b$"),
        (r" a  $x^2$ ", r"a $x^2$"),
        ("50% off", r"50\% off"),
        ("5$ net", r"5\$ net"),
        (r"$\input{x}$", None),  # no command of a name
    ],
)
def test_math_of_the_user_is_math_in_latex_and_the_rest_is_text(name, shown, tmp_path):
    findings = analyze(read_folder(write_study(tmp_path)), ReportOptions(rename=(f"none={name}",)))
    body = latex.table(paper_table(findings.as_typed, None))
    assert f"\n{shown} & 5 &" in body if shown else r"$\input" not in body


def test_math_in_a_name_is_text_on_pages_and_in_markdown(tmp_path):
    renamed = (r"none=$\alpha$ net", r"learned-1d=$\lambda_{\mathrm{1D}}$", r"sinusoidal=5\$ or 6\$")
    findings = analyze(read_folder(write_study(tmp_path)), ReportOptions(rename=renamed))
    drawn = files.make(study_document(findings))
    for name in ("report.html", "report.md"):
        page = re.sub('<svg.*?</svg>|data-text="[^"]*"', "", drawn[name].decode(), flags=re.DOTALL)
        assert "α net" in page and "λ_1D" in page and "alpha" not in page and "lambda" not in page
    assert "λ_1D, epoch 4" in drawn["report.html"].decode()  # what a figure shows under the pointer
    assert "α net" in paper_table(findings, None).caption


def test_a_dollar_in_a_name_of_the_table_is_no_math():
    frame = pd.DataFrame({"m": ["$a$", "$a$", "b", "b"], "seed": [0, 1] * 2, "acc": [1, 2, 3, 5]})
    text = analysis.compare(frame, "acc", "m").to_latex(rename={"b": r"$\beta$"})
    assert "\n\\$a\\$ & 2 &" in text and "\n$\\beta$ & 2 &" in text


def grid(folder):
    """The flags of a table of three factors."""
    generator, cells = np.random.default_rng(0), list(product(*FACTORS.values(), range(5)))
    frame = pd.DataFrame(cells, columns=[*FACTORS, "seed"])
    frame["test/acc"] = 0.9 + 0.01 * (frame["optimizer"] == "sam") + generator.normal(0, 0.004, len(frame))
    frame.to_csv(folder / "grid.csv", index=False)
    return [folder / "grid.csv", "--metric", "test/acc", *(word for name in FACTORS for word in ("--factor", name))]


def datasets(folder, number, names=("sgd", "adam", "sam")):
    """The flags of a table of methods on so many datasets."""
    cells = [
        (f"dataset {d}", m, s, 80 + d + i + (s * (i + d) % 4) / 5)
        for d in range(number)
        for i, m in enumerate(names)
        for s in range(4)
    ]
    pd.DataFrame(cells, columns=["data", "method", "seed", "acc"]).to_csv(folder / "many.csv", index=False)
    return [folder / "many.csv", "--metric", "acc", "--factor", "method", "--dataset", "data"]


@pdflatex.needed
@pytest.mark.parametrize(
    "table",
    [
        lambda folder: [REFERENCE / "table-8-64", "--columns", "variant,test/acc,difference"],
        lambda folder: [REFERENCE / "table-8-64", "--rename", "learned-1d, stem=$L_1$"],
        lambda folder: grid(folder),
        lambda folder: datasets(folder, 12),
        lambda folder: datasets(folder, 2, ("é ± α → “x” 10⁻³", "ø‑net, ≈ łódź", "ế ★ ½")),
        lambda _: ["across", *(REFERENCE / name / "positions" for name in ("digits", "mnist-small")),
                   "--columns", "variant,digits,mnist"],
    ],
)  # fmt: skip
def test_a_table_for_a_paper_compiles_in_latex(table, tmp_path, vit_report):
    file = tmp_path / "table.tex"
    assert vit_report(*table(tmp_path), "--table", file)[0] == 0
    pdflatex.compiles(file.read_text(), tmp_path)


def test_the_longest_known_name_before_an_equals_sign_is_renamed():
    cells = [(m, lr, s, 80 + s + 3 * (m == "b")) for m in "ab" for lr in (1, 2) for s in range(3)]
    results = analysis.compare(pd.DataFrame(cells, columns=["method", "lr", "seed", "acc"]), "acc", ["method", "lr"])
    text = results.to_latex(rename={"method=a, lr=1": "Base", "method=b, lr=2": "x=y", "acc": "Top 1"})
    assert "\nBase & 3 &" in text and "\nx=y & 3 &" in text and "method=b" not in text and " & Top 1 & " in text
    assert results.to_latex(rename=["method=a, lr=1=Base"]) == results.to_latex(rename={"method=a, lr=1": "Base"})


def test_datasets_and_the_metric_are_renamed(tmp_path, vit_report, refused):
    cells = [(d, m, s, 80 + s + s * (d == "y") + 3 * (m == "b")) for d in "xy" for m in "ab" for s in range(3)]
    frame = pd.DataFrame(cells, columns=["data", "m", "seed", "acc"])
    assert " & ImageNet & y & " in analysis.compare(frame, "acc", "m", dataset="data").to_latex(
        rename={"x": "ImageNet"}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    flags = ["--metric", "acc", "--factor", "m", "--dataset", "data", "--rename", "acc=mAP", "--rename", "x=ImageNet"]
    assert vit_report(tmp_path / "t.csv", *flags, "--out", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "ImageNet" in page and "mAP: mean" in page
    line = refused(tmp_path / "t.csv", *flags[:-1], "x=y", "--out", tmp_path / "out")
    assert "--rename: two datasets would have the same name: y, y" in line
