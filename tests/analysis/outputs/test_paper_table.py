"""Tables and figures for a paper: marks, caption, standard deviations, the paper's own names, the user's style."""

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
from analysis.asked import Asked
from analysis.figures import style
from analysis.findings import analyze
from analysis.outputs.paper_table import paper_table
from analysis.report import study_document
from analysis.runs.folder import read_folder
from analysis.write import files, latex
from experiments.errors import UserError

REFERENCE = Path(analysis.__file__).parent / "reference"
VALUES = {
    "none": [0.70, 0.72, 0.71, 0.69, 0.70],
    "learned-1d": [0.901, 0.912, 0.905, 0.897, 0.903],
    "learned-2d": [0.900, 0.911, 0.907, 0.899, 0.902],
}


@pytest.fixture
def restored():
    """Figures have their own style again after the test."""
    kept, colours = dict(style.STYLE), list(style.PALETTE)
    yield
    style.STYLE.clear()
    style.STYLE.update(kept)
    style.PALETTE[:] = colours


def test_the_best_is_bold_and_what_is_not_shown_to_differ_has_a_mark(tmp_path):
    table = paper_table(exact(tmp_path, VALUES), None)
    body = latex.table(table)
    assert r"learned-{}2d & 5 & \textbf{90.38 $\pm$ 0.63} &" in body
    assert r"learned-{}1d & 5 & 90.36 $\pm$ 0.69$^\dagger$ &" in body and body.count("dagger") == 1
    assert "Bold: the best mean. †: equivalent to it (within ±1 point), or not shown to be worse." in table.caption
    assert (
        "95 % intervals for all pairs together (Bonferroni; t tests with the spread of all variants)" in table.caption
    )


def test_standard_deviations_are_those_of_the_runs(tmp_path):
    table = paper_table(exact(tmp_path, VALUES), ["variant", "test/acc"], "sd")
    deviation = pd.DataFrame(VALUES).std()
    assert [row["test accuracy, %"].split(" ± ")[1] for row in rows(table)] == [f"{100 * sd:.2f}" for sd in deviation]
    assert table.data["test/acc_sd"].tolist() == pytest.approx(deviation.tolist())
    assert "standard deviation of the runs" in table.caption and "intervals" not in table.caption


def test_a_name_of_the_paper_stands_in_tables_and_figures(tmp_path, restored):
    study = read_folder(write_study(tmp_path))
    findings = analyze(study, Asked(rename=(r"learned-1d=$\theta_{1D}$", "none=no & none")))
    body = latex.table(paper_table(findings.for_latex, None))
    assert "\n$\\theta_{1D}$ &" in body and "\nno \\& none &" in body and "learned-{}1d" not in body
    drawn = files.make(study_document(findings))
    assert b"no &amp; none" in drawn["figures/forest.svg"] and b"learned-1d" not in drawn["figures/forest.svg"]
    assert findings.study.plan == study.plan and "learned-1d" in findings.comparisons.versus  # only what is shown


def test_labels_of_the_study_are_the_names(tmp_path):
    findings = results_of(tmp_path, study={"labels": {"sinusoidal": "fixed sines"}})
    assert findings.variants.brief["sinusoidal"] == "fixed sines" and findings.conduct.changes == {}


def test_figures_follow_the_users_style(tmp_path, restored):
    (tmp_path / "my.mplstyle").write_text(
        "figure.figsize: 3, 2\nfont.size: 5\naxes.prop_cycle: cycler('color', ['123456'])\n"
    )
    document = study_document(results_of(tmp_path))
    plain = {plot.name: plot.figure.get_size_inches()[1] for plot in document.plots}
    style.use_file(tmp_path / "my.mplstyle")
    for plot in study_document(analyze(read_folder(tmp_path / "position"))).plots:
        width, height = plot.figure.get_size_inches()
        assert width == 3 and height < plain[plot.name]
        if plot.name == "forest":
            names = plot.figure.axes[0].get_yticklabels()
            assert {name.get_fontsize() for name in names} == {4.75}  # half of 9.5
        if plot.name == "curves":
            assert b"#123456" in files.saved(plot, "svg")
    with pytest.raises(UserError, match="cannot be read"):
        style.use_file(tmp_path / "none.mplstyle")
    (tmp_path / "bad.mplstyle").write_text("figure.figsize: wide\n")
    with pytest.raises(UserError, match="--style: .*bad.mplstyle"):
        style.use_file(tmp_path / "bad.mplstyle")


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_the_forest_plot_alone_in_the_users_style_and_width(kind, tmp_path, restored, vit_report, refused):
    folder, file, rule = write_study(tmp_path, seeds=3), tmp_path / "paper" / f"forest.{kind}", tmp_path / "my.mplstyle"
    rule.write_text("font.size: 6\nsavefig.dpi: 100\n")
    words = [folder, "--figure", file, "--width", "3.33", "--style", rule]
    assert vit_report(*words) == (0, f"{file}\n", "")
    assert vit_report(*words) == (0, f"{file}\n", f"vit-report: replaced {file}\n")
    body = file.read_bytes()
    sizes = {"pdf": b"/MediaBox [ 0 0 239.76 ", "svg": b'width="239.76pt"', "png": b"IHDR" + (333).to_bytes(4, "big")}
    assert sizes[kind] in body and (kind != "svg" or re.search(rb"5.7px[^>]*>learned-1d<", body))
    file.write_bytes(b"my own figure")
    assert "is no figure of vit-report; delete it, or give another file" in refused(*words)
    assert file.read_bytes() == b"my own figure" and not (folder / "report").exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r"Ours $\theta$ net", r"Ours $\theta$ net"),
        (r"$a$ & $b$", r"$a$ \& $b$"),
        (r" a  $x^2$ ", r"a $x^2$"),
        (r"$x$", "$x$"),
        ("50% off", r"50\% off"),
    ],
)
def test_spaces_beside_math_stay(name, shown, tmp_path, restored):
    findings = analyze(read_folder(write_study(tmp_path)), Asked(rename=(f"learned-1d={name}",)))
    assert f"\n{shown} & 5 &" in latex.table(paper_table(findings.for_latex, None))


@pytest.mark.parametrize("name", [r"$\theta_{1D}$", r"A $x^2$", r"$a$ & $b$", "5$ net", r"x_1 $\alpha$ 5%"])
def test_the_name_of_the_baseline_has_its_math_in_the_caption_and_in_the_head(name, tmp_path, restored):
    findings = analyze(read_folder(write_study(tmp_path)), Asked(rename=(f"none={name}",)))
    lines = latex.table(paper_table(findings.for_latex, None)).splitlines()
    (row,) = [line.split(" & 5 &")[0] for line in lines if "& baseline" in line]
    quoted = f"``{row}''" if " " in name else row
    (caption,), (head,) = ([line for line in lines if line.startswith(start)] for start in (r"\caption", " & "))
    assert f"Differences from {quoted} have" in caption and f"difference from {row} &" in head


def test_math_in_a_name_is_text_on_pages_and_in_markdown(tmp_path, restored):
    renamed = (r"none=$\alpha$ net", r"learned-1d=$\lambda_{\mathrm{1D}}$", r"sinusoidal=5\$ or 6\$")
    findings = analyze(read_folder(write_study(tmp_path)), Asked(rename=renamed))
    drawn = files.make(study_document(findings))
    for name in ("report.html", "report.md"):
        page = re.sub('<svg.*?</svg>|data-text="[^"]*"', "", drawn[name].decode(), flags=re.DOTALL)
        assert "α net" in page and "λ_1D" in page and "alpha" not in page and "lambda" not in page
    assert "λ_1D, epoch 4" in drawn["report.html"].decode()  # what a figure shows under the pointer
    assert "α net" in paper_table(findings, None).caption


@pdflatex.needed
@pytest.mark.parametrize(
    ("width", "columns", "datasets"),
    [
        ("3.33in", ["--columns", "variant,test/acc,difference"], ["--columns", "variant,digits,mnist"]),
        ("5.5in", [], []),
    ],
    ids=["one column", "two columns"],
)
def test_tables_fit_a_column_and_a_page(width, columns, datasets, tmp_path, vit_report):
    runs = [(f"method {i}", seed, 0.90 + 0.01 * i + 0.001 * (seed * i % 3)) for i in range(8) for seed in range(5)]
    pd.DataFrame(runs, columns=["method", "seed", "test/acc"]).to_csv(tmp_path / "runs.csv", index=False)
    csv = [f"csv:{tmp_path / 'runs.csv'}", "--metric", "test/acc", "--factor", "method"]
    commands = {
        "labels": [REFERENCE / "table-8-64", "--rename", "learned-1d, stem=$L_1$", *columns],
        "many": [REFERENCE / "table-8-64", *columns, "--caption", r"Accuracy in % of $L_{1}$"],
        "few": [REFERENCE / "digits" / "position", *columns, "--caption", ""],
        "csv": [*csv, *columns],
        "across": ["across", *(REFERENCE / name / "positions" for name in ("digits", "mnist-small")), *datasets],
    }
    written = {name: tmp_path / f"{name}.tex" for name in commands}
    assert [vit_report(*command, "--table", written[name])[0] for name, command in commands.items()] == [0] * len(
        commands
    )
    bodies = [file.read_text() for file in written.values()]
    labels = re.findall(r"\\label\{(.*)\}", "".join(bodies))
    assert len(set(labels)) == 4 and r"\begin{table}" not in bodies[2]  # no label without a caption
    log = pdflatex.log_of("\n".join(bodies), tmp_path, width)
    assert "Overfull" not in log and "multiply" not in log


FACTORS = {
    "embedding": ["none", "learned-1d", "learned-2d"],
    "optimizer": ["adamw", "sam"],
    "weight decay": [0.01, 0.1],
}


def grid(folder):
    """The flags of a table of three factors, with a loss."""
    generator, rows = np.random.default_rng(0), list(product(*FACTORS.values(), range(5)))
    frame = pd.DataFrame(rows, columns=[*FACTORS, "seed"])
    frame["test/acc"] = 0.9 + 0.01 * (frame["optimizer"] == "sam") + generator.normal(0, 0.004, len(frame))
    frame.assign(loss=1 - frame["test/acc"]).to_csv(folder / "grid.csv", index=False)
    return [folder / "grid.csv", "--metric", "test/acc", *(word for name in FACTORS for word in ("--factor", name))]


def datasets(folder, number, names=("sgd", "adam", "sam")):
    """The flags of a table of methods on so many datasets."""
    rows = [
        (f"dataset {d}", m, s, 80 + d + i + (s * (i + d) % 4) / 5)
        for d in range(number)
        for i, m in enumerate(names)
        for s in range(4)
    ]
    pd.DataFrame(rows, columns=["data", "method", "seed", "acc"]).to_csv(folder / "many.csv", index=False)
    return [folder / "many.csv", "--metric", "acc", "--factor", "method", "--dataset", "data"]


@pdflatex.needed
@pytest.mark.parametrize(
    ("width", "table"),
    [
        (5.5, lambda folder: grid(folder)),
        (3.33, lambda folder: [*grid(folder), "--columns", "variant,test/acc,difference"]),
        (3.33, lambda folder: [*grid(folder), "--columns", "variant,test/acc,loss"]),
        (3.33, lambda folder: [*grid(folder), "--of", "effects"]),
        (5.5, lambda folder: datasets(folder, 12)),
        (3.33, lambda folder: datasets(folder, 12)),
        (5.5, lambda folder: datasets(folder, 2, ("é ± α → “x” 10⁻³", "ø‑net, ≈ łódź", "ế ★ ½"))),
    ],
)
def test_a_wide_table_fits_and_says_the_width_it_needs(width, table, tmp_path, vit_report):
    file = tmp_path / "table.tex"
    status, _, err = vit_report(*table(tmp_path), "--table", file)
    assert status == 0 and "needs a line" not in err
    needed = float(re.search(r"needs a line of ([\d.]+) inches", file.read_text())[1])
    assert needed <= width and "{[}0" not in file.read_text().split("booktabs", 1)[1].split("\n", 1)[1]
    for inches, fits in ((width, True), (needed, True), (0.8 * needed, False)):
        assert ("Overfull" not in pdflatex.log_of(file.read_text(), tmp_path, f"{inches}in")) == fits


def test_many_datasets_are_rows(tmp_path, vit_report):
    file = tmp_path / "t.tex"
    assert vit_report(*datasets(tmp_path, 12), "--table", file)[0] == 0
    lines = file.read_text().splitlines()
    assert " & adam & sam & sgd \\\\" in lines and sum(line.startswith("dataset 1") for line in lines) == 3
    assert any(line.startswith("better on & -- & 9 & 0") for line in lines)
    status, _, err = vit_report(
        *datasets(tmp_path, 12, [f"method-{n}" for n in range(12)]), "--table", tmp_path / "u.tex"
    )
    assert status == 0 and re.search(r"u.tex needs a line of \d\d?\.\d inches; name fewer --columns", err)


def test_effects_are_those_of_the_report(tmp_path, vit_report, refused):
    results = analysis.read(grid(tmp_path)[0], "test/acc", factor=[*FACTORS])
    contrasts = results.findings.factors.model.contrasts
    assert vit_report(*grid(tmp_path), "--table", tmp_path / "e.csv", "--of", "effects")[0] == 0
    table = pd.read_csv(tmp_path / "e.csv", dtype={"from": str, "to": str})
    assert [*table] == ["factor", "from", "to", "difference", "difference_low", "difference_high", "verdict"]
    assert table["difference"].tolist() == pytest.approx([one.value for one in contrasts["adjusted"]])
    means = results.runs.groupby("optimizer")["test/acc"].mean()
    (row,) = table[table["factor"] == "optimizer"].to_dict("records")
    assert (row["from"], row["to"], row["verdict"]) == ("adamw", "sam", "shown")
    assert row["difference"] == pytest.approx(means["sam"] - means["adamw"])
    assert "weight decay, 0.01, 0.1 & " in results.to_latex(of="effects")
    assert "--of: effects of factors are not tested: it needs a grid" in refused(
        write_study(tmp_path), "--table", tmp_path / "x.tex", "--of", "effects"
    )


def test_columns_of_numbers_beside_the_metric_are_means_of_finished_runs(tmp_path, vit_report):
    rows = [(m, s, 80 + s + 3 * (m == "b"), f"{s + (m == 'b')}.5", "text") for m in "ab" for s in range(3)]
    frame = pd.DataFrame([*rows, ("a", 3, None, "99", "text")], columns=["m", "seed", "acc", "loss", "note"])
    for spread, after in ((None, 1 * 4.302653 / 3**0.5), ("sd", 1.0)):
        flags = [
            "--metric",
            "acc",
            "--factor",
            "m",
            "--columns",
            "variant,acc,loss",
            *(["--spread", spread] if spread else []),
        ]
        frame.to_csv(tmp_path / "runs.csv", index=False)
        assert vit_report(tmp_path / "runs.csv", *flags, "--table", tmp_path / f"{spread}.csv")[0] == 0
        table = pd.read_csv(tmp_path / f"{spread}.csv")
        assert table["loss"].tolist() == [1.5, 2.5]
        half = table["loss_sd"] if spread else table["loss_high"] - table["loss"]
        assert half.tolist() == pytest.approx([after] * 2, rel=1e-5)
    assert " & 1.5 $\\pm$ 2.5 " in analysis.compare(frame, "acc", "m").to_latex("variant,loss")
    with pytest.raises(UserError, match="'note' is not allowed: expected variant, n, .*, loss$"):
        analysis.compare(frame, "acc", "m").to_latex("note")


def test_the_longest_known_name_before_an_equals_sign_is_renamed():
    rows = [(m, lr, s, 80 + s + 3 * (m == "b")) for m in "ab" for lr in (1, 2) for s in range(3)]
    frame = pd.DataFrame(rows, columns=["method", "lr", "seed", "acc"])
    results = analysis.compare(frame, "acc", ["method", "lr"])
    text = results.to_latex(rename={"method=a, lr=1": "Base", "method=b, lr=2": "x=y", "acc": "Top 1"})
    assert "\nBase & 3 &" in text and "\nx=y & 3 &" in text and r"\caption{Top 1: mean" in text
    assert "method=b" not in text and " & Top 1 & " in text
    assert results.to_latex(rename=["method=a, lr=1=Base"]) == results.to_latex(rename={"method=a, lr=1": "Base"})


def test_datasets_and_the_metric_are_renamed(tmp_path, vit_report, refused):
    rows = [(d, m, s, 80 + s + s * (d == "y") + 3 * (m == "b")) for d in "xy" for m in "ab" for s in range(3)]
    frame = pd.DataFrame(rows, columns=["data", "m", "seed", "acc"])
    text = analysis.compare(frame, "acc", "m", dataset="data").to_latex(rename={"x": "ImageNet", "acc": "mAP"})
    assert " & ImageNet & y & " in text and r"\caption{mAP: mean" in text
    frame.to_csv(tmp_path / "t.csv", index=False)
    flags = ["--metric", "acc", "--factor", "m", "--dataset", "data", "--rename", "x=ImageNet"]
    assert vit_report(tmp_path / "t.csv", *flags, "--out", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "ImageNet" in page and "left out" not in page
    line = refused(tmp_path / "t.csv", *flags[:-1], "x=y", "--out", tmp_path / "out")
    assert "--rename: two datasets would have the same name: y, y" in line


@pytest.mark.parametrize(
    ("caption", "shown"),
    [
        (r"cost \$5 and \$10", r"\caption{cost \$5 and \$10}"),
        ("costs $5", r"\caption{costs \$5}"),
        (r"$\theta$ at \$5", r"\caption{$\theta$ at \$5}"),
    ],
)
def test_dollars_in_a_caption(caption, shown):
    frame = pd.DataFrame({"m": list("aabb"), "seed": [0, 1] * 2, "acc": [1, 2, 3, 5]})
    results = analysis.compare(frame, "acc", "m")
    assert shown in results.to_latex(caption=caption)
    with pytest.raises(UserError, match="caption: .* has math that does not end"):
        results.to_latex(caption=r"an unfinished $\theta")
    with pytest.raises(UserError, match="rename: .* has math that does not end"):
        results.to_latex(rename={"a": r"$\theta"})


def test_a_dollar_in_a_name_of_the_table_is_no_math():
    frame = pd.DataFrame({"m": ["$a$", "$a$", "b", "b"], "seed": [0, 1] * 2, "acc": [1, 2, 3, 5]})
    text = analysis.compare(frame, "acc", "m").to_latex(rename={"b": r"$\beta$"})
    assert "\n\\$a\\$ & 2 &" in text and "\n$\\beta$ & 2 &" in text
