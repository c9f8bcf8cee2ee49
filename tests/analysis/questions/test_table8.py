"""Table 8 of the ViT paper: which studies have its cells, and what stands in each."""

import pandas as pd
import pytest
import shown
from page import REFERENCE, results
from synthetic import results_of

from analysis.questions.table8 import PAPER_TABLE_8, paper_places, question
from analysis.report import study_document
from experiments.metric import Metric

KINDS = {"none": "none", "1d": "learned-1d", "2d": "learned-2d"}
HEADS = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}


def places(varied=("model.pos_embed",), metric="test/acc", **changed):
    settings = {v: {"model.pos_embed": kind, "model.pos_site": "stem"} | changed for v, kind in KINDS.items()}
    return paper_places(Metric(metric), varied, settings)


@pytest.mark.parametrize(
    "other", [{"varied": ["model.depth"]}, {"metric": "test/loss"}, {"model.pos_embed": "sinusoidal"}], ids=str
)
def test_other_studies_have_no_place_in_the_papers_table(other):
    assert len(places()) == 3 and places(**other) == {}


@pytest.mark.parametrize("name", ["table-8-64", "mnist-small/table-8"])
def test_a_study_of_its_cells_shows_the_papers_table_and_has_both_numbers_and_marks(name):
    """The means are those of runs.csv, and the marks the verdicts of the main table."""
    document = study_document(results(name))
    (paper,) = (section for section in document.as_shown().sections if section.id == "paper")
    (table,) = paper.items
    assert (table.name, table.folded) == ("table8", False)
    runs = pd.read_csv(REFERENCE / name / "runs.csv").query("status == 'finished'")
    means = 100 * runs.groupby("variant")["test/acc"].mean()
    main = {t.name: t for t in document.tables}["variants"].data.set_index("variant")
    columns, rows = table.shown()
    assert [column.label.partition(":")[0] for column in columns[1:]] == [*HEADS.values()]
    assert [row[0].text for row in rows] == ["none", "learned-1d", "learned-2d", "relative"]
    cells = {(row[0].text, site): cell for row in rows for site, cell in zip(HEADS, row[1:])}
    for (kind, site), published in PAPER_TABLE_8.items():
        at = "every-layer" if kind == "relative" else site  # relative attention acts in every layer
        variant = f"{kind}, {at}"
        cell = cells.pop((kind, site))
        paper, ours = cell.text.split(" / ")
        assert paper == f"{100 * published:.2f}"
        value, _, half, count = ours.split(" ")
        assert float(value) == pytest.approx(means[variant], abs=0.5001 * 10 ** -len(value.partition(".")[2]))
        assert float(half) > 0 and count == f"({(runs['variant'] == variant).sum()})"
        verdict = main.loc[variant, "verdict"].replace(" ", "-")
        assert cell.mark == ("" if verdict == "baseline" else verdict)
    assert {cell.text for cell in cells.values()} == {"–"}
    assert {"better", "worse"} & {cell.mark for row in rows for cell in row}


def test_its_data_have_the_papers_figures_and_this_studys(tmp_path):
    assert question(results_of(tmp_path / "other", seeds=2)) is None  # it has sinusoidal
    findings = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.95, "learned-2d": 0.94})
    (table,) = question(findings).items
    frame = table.data.set_index("kind")
    assert {(kind, site): frame.loc[kind, f"{site}_paper"] for kind, site in PAPER_TABLE_8} == PAPER_TABLE_8
    mean, ours = findings.means.of("learned-2d"), ["stem_ours", "stem_low", "stem_high", "stem_n"]
    assert frame.loc["learned-2d", ours].tolist() == pytest.approx([mean.value, mean.low, mean.high, 5])
    assert frame["every-layer_ours"].isna().all() and frame["stem_ours"].isna().tolist() == [False] * 3 + [True]
    rows = shown.rows(table)
    assert rows[1]["Every Layer: paper / this study, %"] == "63.96 / –"
    assert rows[3]["Default/Stem: paper / this study, %"] == "64.03 / –"
