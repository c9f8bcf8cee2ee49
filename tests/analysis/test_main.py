"""The command vit-report: what it prints and writes. Its errors: see test_errors."""

import json
import shutil
from pathlib import Path

import pandas as pd
from synthetic import ACCURACY, write_study

from analysis.runs.read import studies_in


def damaged(folder):
    file = folder / "v1-s1" / "metrics.csv"
    file.write_text(file.read_text().replace("1", "2", 1))
    return folder


def test_a_study_with_the_dataset_as_a_factor_is_reported_by_dataset(tmp_path, vit_report):
    options = {"factors": {"data.name": ["digits", "mnist"]}, "levels": lambda variant: {"data.name": variant}}
    folder = write_study(tmp_path, accuracy={"digits": 0.9, "mnist": 0.3}, **options)
    assert vit_report(folder)[0] == 0 and (folder / "report" / "tables" / "across.csv").is_file()
    status, out, _ = vit_report(folder, "--json")
    assert status == 0 and list(json.loads(out)["datasets"]) == ["digits", "mnist"]


def test_a_table_of_methods_on_datasets_is_one_page_table_or_json(tmp_path, vit_report):
    """A column says the dataset, or each dataset has its own file; the answer is the same."""
    methods = {"sgd": [90.1, 90.3, 90.6, 89.9, 90.2], "adam": [91.2, 90.8, 91.9, 91.1, 91.0]}
    rows = [(m, seed, acc) for m, values in methods.items() for seed, acc in enumerate(values)]
    frame = pd.DataFrame(rows, columns=["method", "seed", "acc"])
    parts = {"mnist": frame, "svhn": frame.assign(acc=frame["acc"] * 0.9, seed=frame["seed"] + 7)}
    pd.concat([part.assign(data=name) for name, part in parts.items()]).to_csv(tmp_path / "runs.csv", index=False)
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    flags = ["--metric", "acc", "--factor", "method", "--baseline", "sgd"]
    one = [f"csv:{tmp_path / 'runs.csv'}", *flags, "--dataset", "data"]
    each = ["across", *(f"csv:{tmp_path / name}.csv" for name in parts), *flags]
    said = "adam is better than sgd on all 2 datasets (mnist and svhn)."
    for command in (one, each):
        status, out, _ = vit_report(*command)
        assert status == 0 and said in " ".join(out.split())
        page = Path(out.splitlines()[-1])
        assert (page.parent / "tables" / "across.csv").is_file() and "--metric acc" in page.read_text()
        found = json.loads(vit_report(*command, "--json")[1])
        assert found["against_baseline"] == [
            {"variant": "adam", "better": ["mnist", "svhn"], "worse": [], "equivalent": []}
        ]
        assert vit_report(*command, "--table", tmp_path / "t.tex")[0] == 0
        assert r"adam & \textbf{91.20 \ensuremath{\pm} 0.52 $\bigtriangleup$} &" in (tmp_path / "t.tex").read_text()
        assert vit_report(*command, "--table", tmp_path / "t.md", "--columns", "svhn,variant")[0] == 0
        assert (tmp_path / "t.md").read_text().startswith("| svhn | variant |")
    status, _, err = vit_report("across", each[1], *flags)
    assert status == 2 and "across: one dataset is not enough" in err


def test_the_terminal_shows_the_headline_and_the_page_opens(tmp_path, vit_report, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("COLUMNS", "60")
    folder = write_study(tmp_path, seeds=3)
    status, out, err = vit_report(folder, "--open")
    *headline, page = out.splitlines()
    assert (status, err) == (0, "") and opened == [Path(page).resolve().as_uri()]
    assert max(map(len, headline)) <= 60
    written = (folder / "report" / "report.md").read_text()
    assert " ".join(headline[0].split()) in " ".join(written.split())


def test_a_table_for_a_paper(tmp_path, vit_report):
    folder, file = write_study(tmp_path / "study", seeds=3), tmp_path / "paper" / "variants.tex"
    words = [folder, "--table", file, "--columns", "variant,test/acc,difference"]
    assert vit_report(*words) == (0, f"{file}\n", "")
    assert vit_report(*words) == (0, f"{file}\n", f"vit-report: replaced {file}\n")
    lines = file.read_text().splitlines()
    assert not (folder / "report").exists() and (folder / "looks.jsonl").exists()
    assert lines[0].startswith("% written by vit-report") and lines[-1] == r"\end{tabular}"
    assert lines[lines.index(r"\midrule") + 1].startswith("none & 7")
    (best,) = (line for line in lines if "textbf" in line)
    assert best.startswith(r"sinusoidal & \textbf{96.")
    assert vit_report(*words[:4], "variant")[0] == 0 and "&" not in file.read_text()  # its own file, other columns
    file.write_text("my paper\n")
    for other, said in (
        ([*words[:4], "tset/acc"], "--columns: 'tset/acc' is not allowed: expected variant, n, test/acc, differ"),
        (words, "does not begin as this table does; delete it, or give another file"),
    ):
        status, _, err = vit_report(*other)
        assert (status, err.count("\n")) == (2, 1) and said in err
    assert file.read_text() == "my paper\n"
    assert vit_report(folder, "--table", tmp_path / "t.md")[0] == 0
    head, _, none, *_ = (tmp_path / "t.md").read_text().splitlines()
    assert head.count("|") == none.count("|") == 7 and none.endswith("| – | – | baseline |")


def test_an_exploratory_report_leaves_the_planned_one_alone(tmp_path, vit_report):
    folder = write_study(tmp_path, seeds=3)
    assert vit_report(folder)[0] == 0
    before = (folder / "report" / "report.html").read_bytes()
    status, out, _ = vit_report(folder, "--metric", "val/acc")
    assert status == 0
    assert out.splitlines()[-1] == str(folder / "report-exploratory" / "report.html")
    assert "exploratory: its metric is val/acc, and the plan states test/acc" in Path(out.splitlines()[-1]).read_text()
    assert (folder / "report" / "report.html").read_bytes() == before
    assert "Note: This report is exploratory: its metric is val/acc" in out
    status, _, err = vit_report("export", folder, tmp_path / "exported", "--metric", "val/acc")
    assert status == 2 and "--metric: is not allowed: the plan of" in err
    assert not (tmp_path / "exported").exists()


def test_an_exported_study_gives_the_report_of_its_run_folders(tmp_path, vit_report):
    """All of report.md and every table, byte for byte. The run folders' report lies elsewhere, so it has no links."""
    statuses = {("none", 0): "diverged", ("none", 1): "incomplete", ("learned-1d", 2): "absent"}
    folder = write_study(tmp_path, seeds=4, statuses=statuses)
    status, out, err = vit_report("export", folder, tmp_path / "exported")
    assert (status, out, err) == (0, f"{tmp_path / 'exported'}\n", "")
    assert {path.name for path in (tmp_path / "exported").iterdir()} == {"study.json", "runs.csv", "curves.csv"}
    assert vit_report(folder, "--out", tmp_path / "report")[0] == 0
    assert vit_report(tmp_path / "exported")[0] == 0
    names = ["report.md", *(f"tables/{path.name}" for path in (tmp_path / "report" / "tables").iterdir())]
    assert len(names) == 8
    for name in names:
        assert (tmp_path / "report" / name).read_bytes() == (tmp_path / "exported" / "report" / name).read_bytes(), name


def test_a_folder_with_one_study_has_an_index_and_is_that_study_for_what_is_of_one_study(tmp_path, vit_report):
    one = write_study(tmp_path, "one", seeds=2)
    status, out, err = vit_report(tmp_path)
    page = str(tmp_path / "report" / "report.html")
    assert (status, err, out.splitlines()[-2:]) == (0, "", ["1 study, 1 complete.", page])
    status, out, err = vit_report(tmp_path, "--baseline", "none")
    assert err == f"vit-report: the only study in {tmp_path} is {one}\n"
    assert (status, out.splitlines()[-1]) == (0, str(one / "report-exploratory" / "report.html"))
    two = write_study(tmp_path, "two", seeds=2)
    status, out, err = vit_report("export", tmp_path, tmp_path / "exported")
    assert (status, out) == (2, "")
    assert err == f"vit-report: error: {tmp_path}: holds 2 studies; give one of them: {one}, {two}\n"


def test_a_folder_with_several_studies_has_an_index(tmp_path, vit_report):
    one = write_study(tmp_path, "ab", seeds=3).rename(tmp_path / "a b")
    two = write_study(tmp_path, "two", seeds=2)
    new = write_study(
        tmp_path, "new", seeds=2, statuses={(kind, seed): "absent" for kind in ACCURACY for seed in (0, 1)}
    )
    damaged(write_study(tmp_path, "damaged", seeds=2))
    answer = vit_report(one)[1].split("(", 1)[0]
    (tmp_path / "x").mkdir()
    shutil.move(two / "v3-s1", tmp_path / "x" / "later")
    status, out, err = vit_report(tmp_path)
    page = tmp_path / "report" / "report.html"
    assert (status, err, out.splitlines()[-1]) == (0, "", str(page))
    said = " ".join(out.split())
    assert "4 studies, 1 complete. damaged: Not read: " in said and "v1-s1/metrics.csv" in said
    assert "new: In progress: 0 of 8 runs finished, 8 incomplete. two: In progress: 7 of 8 runs" in said
    assert 'href="../a%20b/report/report.html"' in page.read_text() and answer in page.read_text()
    assert (two / "looks.jsonl").exists() and not (new / "looks.jsonl").exists()
    for flags in (("--baseline", "none"), ("--rename", "none=x"), ("--models",), ("--lower-is-better",)):
        status, _, err = vit_report(tmp_path, *flags)
        assert status == 2 and f"{flags[0]}: is for one study; {tmp_path} holds 4: " in err
    status, _, err = vit_report(one, "--spread", "sd")
    assert status == 2 and "--spread: is allowed only with --table, or over several datasets" in err
    shutil.rmtree(new)
    shutil.move(tmp_path / "x" / "later", two / "v3-s1")
    assert vit_report(tmp_path)[0] == 0
    assert "Complete: 8 of 8 runs finished." in page.read_text()


def test_links_show_no_study_twice_and_an_index_of_broken_studies_is_an_error(tmp_path, vit_report):
    """A link to a study elsewhere is followed, a loop is not."""
    out = tmp_path / "out"
    one, other = write_study(out, "one", seeds=1), write_study(tmp_path / "disk", "other", seeds=1)
    for name, target in {"latest": one, "here": out, "other": other}.items():
        (out / name).symlink_to(target)
    assert studies_in(str(out)) == [one, out / "other"]
    for study in (one, other):
        (study / "study.json").unlink()
        (study / "study.json").mkdir()
    status, said, err = vit_report(out)
    assert (status, said, (out / "report").exists()) == (2, "", False)
    reason = f"{one}/study.json: cannot be read: Is a directory"
    assert err == f"vit-report: error: {out}: holds no study that can be read: {reason}\n"
    assert vit_report(one)[2] == f"vit-report: error: {reason}\n"
