"""`vit-report --wandb`, with the real client and a stand-in server: pages are saved once, and names are never markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import study_file
from markdown_it import MarkdownIt
from synthetic import write_study
from wandb_pages_server import PagesServer, View
from wandb_server import Run

from analysis.main import main
from analysis.report import write
from analysis.report.document import Document, Section
from analysis.report.render import Cell, Column, Table
from analysis.report.study_report import study_document
from analysis.results import analyze
from analysis.sources.read import read
from analysis.wandb_pages.collect import collect
from analysis.wandb_pages.publish import publish
from analysis.wandb_pages.specification import specification
from experiments.runs import record
from experiments.runs.tracking import sent
from experiments.runs.tracking.settings import Tracking, token

HOSTILE = '<img src=x onerror="alert(1)">'
MARKUP = "**bold** [link](javascript:x) `code`"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PagesServer]:
    with PagesServer().used_here(monkeypatch) as running:
        yield running


def mirror(server: PagesServer, folder: Path, runs: int) -> list[str]:
    """Give the server the first runs of a study. Returns their ids."""
    ids = []
    for entry in study_file.read_study(folder)["runs"][:runs]:
        config = record.read_config(folder / entry["run"])
        name = f"{entry['run']}-{token(folder)}"
        values = {key: {"value": value} for key, value in config.items()}
        server.runs[name] = Run(name, "vit-ablation", {"jobType": "position", "groupName": entry["variant"]}, values)
        ids.append(name)
    return ids


def quick_document() -> Document:
    """A report with a headline and a table."""
    table = Table("variants", "A caption.", (Column("variant"), Column("accuracy")), ((Cell("none"), Cell("71.95")),))
    sections = [Section("result", "Results", [table], ["A paragraph."])]
    return Document("position", "", "A summary.", ("The headline.",), ["A warning."], sections)


def save(folder: Path, out: Path) -> list[str]:
    document = quick_document()
    files = write.make(document)
    write.write(files, out)
    return publish(read(str(folder)), document, files, out, Tracking())


def parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a specification."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from parts(part)


def sections(view: View) -> dict[str, list[str]]:
    """name -> kinds of panels, of a workspace."""
    found = view.spec["section"]["panelBankConfig"]["sections"]
    return {section["name"]: [panel["viewType"] for panel in section["panels"]] for section in found}


def test_saved_twice_there_is_one_workspace_and_one_report(server: PagesServer, tmp_path: Path) -> None:
    folder = write_study(tmp_path, seeds=2)
    (first, *_), out = mirror(server, folder, 7), folder / "report"
    said = save(folder, out)
    (workspace,), (report,) = server.of_type("project-view"), server.of_type("runs")
    assert [line.partition(": ")[0] for line in said] == ["workspace in W&B", "report in W&B"]
    assert not (out / "wandb.json").exists() and server.unknown == []
    run_set = workspace.spec["section"]["runSets"][0]
    assert run_set["grouping"] == [{"section": "run", "name": "group"}]
    assert [(each["key"]["name"], each["op"], each["value"]) for each in run_set["filters"]["filters"]] == [
        ("jobType", "=", "position")
    ]
    kinds = sections(workspace)
    assert kinds["Learning curves"] == ["Run History Line Plot"] * 4
    assert {"Bar Chart", "Parallel Coordinates Plot", "Scatter Plot", "Run Comparer"} <= set(kinds["Result"])
    assert set(kinds["Pictures"]) == {"Media Browser"}
    text = json.dumps(report.spec)
    assert "The headline." in text and "71.95" in text and "A warning." in text
    assert f"{server.url}/tester/vit-ablation/runs/{first}" in text
    assert "Runs without a link are not in W&B" in text  # one of the eight
    assert "at most 100 runs" in text and "not confidence intervals" in text

    own = {**workspace.spec["section"]["panelBankConfig"]["sections"][0], "name": "Of the user", "panels": []}
    workspace.spec["section"]["panelBankConfig"]["sections"].append(own)
    assert save(folder, out) == said
    (again,), (report_again,) = server.of_type("project-view"), server.of_type("runs")
    assert again.saved == report_again.saved == 2
    assert sections(again) == {**kinds, "Of the user": []}
    assert report_again.spec == report.spec


def test_the_run_of_an_agent_gets_its_link(server: PagesServer, tmp_path: Path) -> None:
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    (entry, *_) = study_file.read_study(folder)["runs"]
    server.runs["of-an-agent"] = Run(
        "of-an-agent", "vit-ablation", {"jobType": "position", "groupName": entry["variant"]}, {}
    )
    sent.write(folder, entry["run"], sent.Sent("of-an-agent", f"{server.url}/tester/vit-ablation", "sweep"))
    save(folder, folder / "report")
    (report,) = server.of_type("runs")
    assert f"{server.url}/tester/vit-ablation/runs/of-an-agent" in json.dumps(report.spec)


def test_figures_are_sent_once_and_are_no_run_of_the_study(server: PagesServer, tmp_path: Path) -> None:
    from analysis.wandb_pages.figures_run import send_figures

    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    mirror(server, folder, 2)
    picture = tmp_path / "accuracy.png"
    picture.write_bytes(PNG)
    for _ in range(2):
        send_figures({"accuracy": picture}, "position", "figures-1", "tester", "vit-ablation", tmp_path)
    run = server.runs["figures-1"]
    assert len(run.history) == 1
    (logged,) = (run.history[0]["report/accuracy"]["path"],)
    assert run.files[logged] == PNG
    assert len(read("wandb:tester/vit-ablation").runs) == 2


def test_without_a_server_the_specification_is_in_the_report_and_one_line_says_so(tmp_path, capsys) -> None:
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2)
    with pytest.raises(SystemExit) as stopped:
        main([str(folder), "--wandb", "--without-models"])
    out, err = capsys.readouterr()
    file = folder / "report" / "wandb.json"
    assert (stopped.value.code, err) == (0, "")
    assert out.splitlines()[-1] == (
        f"not saved in W&B (WANDB_MODE is disabled); the specification of workspace and report: {file}"
    )
    made = json.loads(file.read_text())
    figures = [part["mediaKeys"] for part in parts(made["report"]) if "mediaKeys" in part]
    assert ["report/accuracy"] in figures and (folder / "report" / "figures" / "accuracy.png").exists()
    write.check_replaceable(folder / "report")
    assert not (folder / "wandb.json").exists()


@pytest.mark.parametrize("trouble", ["wrong key", "no run"])
def test_a_server_that_cannot_be_used_is_named_in_one_line(
    server: PagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    if trouble == "wrong key":
        monkeypatch.setenv("WANDB_API_KEY", "f" * 40)
    (line,) = save(folder, folder / "report")
    assert line.startswith("not saved in W&B (") and "f" * 40 not in line
    assert trouble == "wrong key" or f"has no run of this study; send them with `vit-sweep sync {folder}`" in line
    assert (folder / "report" / "wandb.json").exists() and not server.views


@pytest.mark.parametrize(
    ("fault", "after"),
    [
        ("hang", 6),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("hang", 0), ("die", 0), ("500", 0), ("500", 6))),
    ],
)
def test_a_server_that_fails_costs_a_bounded_time_and_one_line(
    server: PagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, after: int
) -> None:
    """Also in mid-work, `after` some requests. The report stays complete, and a later call saves the pages once."""
    monkeypatch.setattr("analysis.wandb_pages.publish.LIMIT_SECONDS", 15)
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    mirror(server, folder, 2)
    server.fault, server.after = fault, after
    (line,) = save(folder, folder / "report")
    assert line.startswith("not saved in W&B (") and line.endswith(
        f"of workspace and report: {folder / 'report/wandb.json'}"
    )
    assert (folder / "report" / "report.md").exists() and server.key not in line
    if fault != "die":
        server.fault = "none"
        assert len(save(folder, folder / "report")) == 2
        assert len(server.of_type("project-view")) == len(server.of_type("runs")) == 1


def test_names_with_markup_are_text_everywhere(tmp_path: Path) -> None:
    levels = {HOSTILE: "none", MARKUP: "learned-1d"}
    folder = write_study(
        tmp_path,
        accuracy={HOSTILE: 0.7, MARKUP: 0.9},
        levels=lambda variant: {"model.pos_embed": levels[variant]},
        seeds=2,
        description=f"{HOSTILE} {MARKUP}",
        study={"names": {"model.pos_embed": HOSTILE}},
    )
    study = read(str(folder))
    content = collect(study, study_document(analyze(study)))
    made = specification(content, "tester", "vit-ablation")
    assert made == specification(content, "tester", "vit-ablation")
    found = list(parts(json.loads(made)))
    sources = [part["content"] for part in found if part.get("type") == "markdown-block"]
    sources += [part["config"]["value"] for part in found if part.get("viewType") == "Markdown Panel"]
    html = "".join(MarkdownIt("commonmark", {"html": True}).enable("table").render(source) for source in sources)
    assert "<img" not in html and "<code" not in html and "javascript:x" not in html.partition("href")[2]
    assert "&lt;img src=x" in html and "**bold** [link](javascript:x) `code`" in html
    assert {part["type"] for part in found if "children" in part} <= {
        "paragraph", "markdown-block", "callout-block", "callout-line", "heading", "panel-grid", "code-block", "code-line",
    }  # fmt: skip
    assert any(part.get("text") == f"{HOSTILE} {MARKUP}" for part in found)  # a paragraph: W&B shows it as it is
    assert any(part.get("displayName") == HOSTILE for part in found)


def test_without_the_extra_one_line_says_how_to_install_it(tmp_path, capsys, monkeypatch) -> None:
    folder = write_study(tmp_path, seeds=1)
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    with pytest.raises(SystemExit) as stopped:
        main([str(folder), "--wandb"])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"\n')
    assert not (folder / "report").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["STUDY", "--wandb", "--watch"],
            "--wandb saves the planned report of one study; it is not allowed with --watch",
        ),
        (["STUDY", "--wandb", "--metric", "val/acc"], "it is not allowed with --metric"),
        (["STUDY", "--wandb", "--export", "there"], "--export writes no report; it is not allowed with --wandb"),
        (["STUDY", "--project", "mine"], "--project: is allowed only with --wandb"),
        (["STUDY", "--wandb", "--project", "a/b"], "--project: 'a/b' is not allowed"),
        (["EXPORT", "--wandb"], "has no study folder; give the folder of a study that vit-sweep trained"),
    ],
)
def test_what_is_not_possible_is_one_line(tmp_path, capsys, arguments: list[str], said: str) -> None:
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    with pytest.raises(SystemExit):
        main([str(folder), "--export", str(tmp_path / "exported")])
    capsys.readouterr()
    places = {"STUDY": str(folder), "EXPORT": str(tmp_path / "exported")}
    with pytest.raises(SystemExit) as stopped:
        main([places.get(argument, argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (2, "", 1) and said in err
    assert not list(tmp_path.glob("*/report"))


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc00000030101"
    "00c9fe92ef0000000049454e44ae426082"
)
