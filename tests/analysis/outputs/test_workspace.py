"""`vit-report --wandb`, with the real client and a stand-in server: one workspace, in which names are never markup."""

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

from analysis.commands import save_workspace
from analysis.findings import analyze
from analysis.runs.read import read
from analysis.write.document import Document, Section
from analysis.write.table import Column, Table
from experiments.runs import record

HOSTILE = '<img src=x onerror="alert(1)">'
MARKUP = "**bold** [link](javascript:x) `code`"
NOT_SAVED = "no workspace is saved: W&B cannot be used ("


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PagesServer]:
    with PagesServer().used_here(monkeypatch) as running:
        yield running


def mirrored_study(server: PagesServer, tmp_path: Path) -> Path:
    """The folder of a study of two variants, of which the server has a run."""
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=1)
    (entry, *_) = study_file.read_study(folder)["runs"]
    values = {key: {"value": value} for key, value in record.read_json(folder / entry["run"] / record.CONFIG).items()}
    server.runs["a"] = Run("a", "vit-ablation", {"jobType": "position", "groupName": entry["variant"]}, values)
    return folder


def save(folder: Path) -> str:
    """Save the workspace of the study, with an answer and a table that hold markup."""
    columns = tuple(Column(name, name) for name in ("variant", "accuracy"))
    table = Table("variants", "A caption.", [{"variant": HOSTILE, "accuracy": "71.95"}], columns)
    sections = [Section("result", "Results", [table])]
    document = Document("position", "", "A summary.", (f"The answer {MARKUP}.",), [], sections)
    return save_workspace(analyze(read(str(folder))), document)


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


def test_saved_twice_there_is_one_workspace_and_the_sections_of_the_user_stay(server: PagesServer, tmp_path: Path):
    folder = mirrored_study(server, tmp_path)
    said = save(folder)
    (workspace,) = server.views.values()
    assert said.startswith(f"workspace in W&B: {server.url}/tester/vit-ablation") and workspace.type == "project-view"
    assert server.unknown == []
    run_set = workspace.spec["section"]["runSets"][0]
    assert run_set["grouping"] == [{"section": "run", "name": "group"}]
    token = json.loads((folder / "wandb.json").read_text())["token"]
    (only,) = run_set["filters"]["filters"]
    assert only["key"] == {"section": "config", "name": "study"}
    assert (only["op"], only["value"]) == ("=", f"position-{token}")
    kinds = sections(workspace)
    assert kinds["Result"] == ["Markdown Panel", "Bar Chart"]
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    html = "".join(map(reader.render, texts(workspace.spec)))
    assert "The answer" in html and "71.95" in html
    assert "<img" not in html and "<code" not in html and "<a" not in html
    assert "&lt;img src=x" in html and MARKUP in html

    own = {**workspace.spec["section"]["panelBankConfig"]["sections"][0], "name": "Of the user", "panels": []}
    workspace.spec["section"]["panelBankConfig"]["sections"].append(own)
    assert save(folder) == said
    (again,) = server.views.values()
    assert again.saved == 2 and sections(again) == {**kinds, "Of the user": []}


def texts(workspace: dict[str, Any]) -> list[str]:
    """What W&B reads as Markdown."""
    return [part["config"]["value"] for part in parts(workspace) if part.get("viewType") == "Markdown Panel"]


def test_without_a_server_one_line_says_so(tmp_path, vit_report) -> None:
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2)
    status, out, err = vit_report(folder, "--wandb")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "no workspace is saved: W&B cannot be used (WANDB_MODE is disabled)"
    assert not (folder / "wandb.json").exists()


def test_a_wrong_key_is_named_in_one_line(server: PagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "f" * 40)
    line = save(mirrored_study(server, tmp_path))
    assert line.startswith(NOT_SAVED) and "f" * 40 not in line
    assert not server.views


@pytest.mark.parametrize(
    ("fault", "after"),
    [("hang", 6), *(pytest.param(*slow, marks=pytest.mark.slow) for slow in (("hang", 0), ("die", 0), ("500", 6)))],
)
def test_a_server_that_fails_costs_a_bounded_time_and_one_line(
    server: PagesServer, tmp_path: Path, fault: str, after: int
) -> None:
    """Also in mid-work, `after` some requests. A later call saves the workspace once."""
    folder = mirrored_study(server, tmp_path)
    server.fault, server.after = fault, after
    line = save(folder)
    assert line.startswith(NOT_SAVED) and server.key not in line
    if fault != "die":
        server.fault = "none"
        assert save(folder).startswith("workspace in W&B: ") and len(server.views) == 1


def test_without_the_extra_one_line_says_how_to_install_it(tmp_path, refused, monkeypatch) -> None:
    folder = write_study(tmp_path, seeds=1)
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    assert refused(folder, "--wandb").endswith(
        '--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"\n'
    )
    assert not (folder / "report").exists()
