"""Every output shows what is known of a variant: its levels, whatever a factor is called, its mean, and its verdict."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from typing import get_args

import pandas as pd
import pytest
from markupsafe import Markup

import analysis
from analysis.outputs import workspace
from analysis.outputs.as_json import as_dict
from analysis.outputs.notebook import Results
from analysis.outputs.paper_table import paper_table
from analysis.report import study_document
from analysis.verdicts.comparisons import Verdict
from analysis.write import latex, pages
from analysis.write.table import as_csv
from experiments.metric import is_metric

GRID = (0b10101010, 0b11001100, 0b11110000)
MASKS = [*GRID, *(mask for mask in range(2, 256, 2) if mask not in GRID)]
"""The variants with the second level of a factor: no two factors change together, and the first three are a grid."""


def study(names, metric="score", shift=0, variants=8):
    """The results of so many variants on two seeds. The levels of the factors are L0x and L0y, L1x and L1y..."""
    rows = [
        {name: level(number, variant) for number, name in enumerate(names)}
        | {"a seed": seed, metric: shift + variant / 100 + (seed * variant % 3) / 1000}
        for variant in range(variants)
        for seed in range(2)
    ]
    better = {} if is_metric(metric) else {"higher_is_better": True}
    return analysis.compare(pd.DataFrame(rows), metric, names, seed="a seed", **better)


def level(number, variant):
    return f"L{number}{'xy'[MASKS[number] >> variant & 1]}"


def tables_of(results):
    """Name -> header and rows of every CSV."""
    document = study_document(results.findings)
    texts = {table.name: table.csv() for table in document.tables}
    texts |= {name: as_csv(frame) for name, frame in document.frames.items()}
    texts |= {"paper": paper_table(results.findings, None).csv(), "python": as_csv(results.table.reset_index())}
    texts["frame"] = as_csv(results.runs)
    return {name: list(csv.reader(io.StringIO(text))) for name, text in texts.items()}


def numbers(texts):
    return sorted(pd.to_numeric(pd.Series(texts), errors="coerce").fillna(0))


def cells_of(results, folder):
    """Output -> the texts of the cells of its tables."""
    document = study_document(results.findings)
    csvs = dict.fromkeys([*document.frames, *(table.name for table in document.tables)], "")
    page = pages.page(document.as_shown(), {plot.name: Markup() for plot in document.plots}, csvs)
    made = workspace.workspace(results.findings, document, folder, "team", "project")
    panels = [panel.markdown for section in made.sections for panel in section.panels if hasattr(panel, "markdown")]
    tex = latex.table(paper_table(results.findings.as_typed, None)).replace(r"\\", "&").replace("{}", "")
    return {
        "page": [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", page)],
        "markdown": pages.readme(document.as_shown()).split("|"),
        "latex": re.split(r"[\n&]|, ", tex),  # of many factors, the levels are one column
        "notebook": [re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[dh].*?</t[dh]>", results._repr_html_())],
        "W&B": "\n".join(panels).split("|"),
        "csv": [cell for head, *rows in tables_of(results).values() for row in rows for cell in row],
        "json": [
            json.dumps(one) for part in as_dict(results.findings).values() if isinstance(part, list) for one in part
        ],
    }


FIELDS = sorted(
    {name for head, *_ in tables_of(study(["m", "o", "q"])).values() for name in head} - {"m", "o", "q", "score"}
)
"""Every field of every table of a study of three factors, of its report, for papers and in Python."""


@pytest.fixture(scope="module")
def of_factors(tmp_path_factory):
    results = study(FIELDS)
    return tables_of(results), cells_of(results, tmp_path_factory.mktemp("contract"))


@pytest.mark.parametrize("field", FIELDS)
def test_the_levels_of_a_factor_with_the_name_of_a_field_are_shown_in_every_output(field, of_factors):
    tables, cells = of_factors
    number = FIELDS.index(field)
    levels = {f"L{number}x", f"L{number}y"}
    for name in ("variants", "differences", "runs", "paper", "frame"):
        head, *rows = tables[name]
        held = [column for column, *texts in zip(head, *rows) if levels >= {*texts}]
        assert len(held) == 1 and re.fullmatch(rf"((factor|config)\.)*{re.escape(field)}", held[0]), name
        assert len({*head}) == len(head), name
    for output in cells.keys() - {"json", "notebook"}:
        assert levels <= {cell.strip() for cell in cells[output]}, output
    assert all(any(level in cell for cell in cells["json"]) for level in levels)


@pytest.mark.parametrize("field", [field for field in FIELDS if not is_metric(field)])
def test_the_mean_of_a_metric_with_the_name_of_a_field_is_shown_in_every_table(field):
    results = study(["m", "o"], field, shift=0.5, variants=4)
    means = [0.5 + variant / 100 + (variant % 3) / 2000 for variant in range(4)]
    for name, (head, *rows) in tables_of(results).items():
        columns = {column: texts for column, *texts in zip(head, *rows)}
        if name in ("variants", "paper", "python"):
            found = [column for column, texts in columns.items() if numbers(texts) == pytest.approx(means)]
            assert len(found) == 1 and found[0] in ("mean", field, f"metric.{field}"), name
        assert len({*head}) == len(head), name


VERDICTS = [verdict for verdict in get_args(Verdict) if verdict != "baseline"]


@pytest.fixture(scope="module")
def of_verdicts(tmp_path_factory):
    """A study in which each variant has another verdict against the baseline, and the cells of its outputs."""
    frame = pd.DataFrame({"m": ["a", *VERDICTS] * 2, "seed": [0] * 7 + [1] * 7, "acc": range(14)})
    findings = analysis.compare(frame, "acc", "m", baseline="a", margin=0.1).findings
    versus = {name: replace(one, verdict=name) for name, one in findings.comparisons.versus.items() if name != "a"}
    comparisons = replace(
        findings.comparisons,
        versus=findings.comparisons.versus | versus,
        pairs=findings.comparisons.pairs | {(name, "a"): one for name, one in versus.items()},
    )
    changed = Results({"": replace(findings, comparisons=comparisons)}, (findings.study,))
    return changed, cells_of(changed, tmp_path_factory.mktemp("verdicts"))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_verdict_is_shown_in_every_output(verdict, of_verdicts):
    results, cells = of_verdicts
    for output, texts in cells.items():
        if output != "json":
            rows = [
                [*map(str.strip, texts[at + 1 : at + 9])] for at, text in enumerate(texts) if text.strip() == verdict
            ]
            word = "undecided" if verdict == "not shown" and output in ("html", "markdown", "latex", "W&B") else verdict
            assert any(text.startswith(word) for row in rows for text in row), output
    assert results.table.loc[verdict, "verdict"] == verdict
    (said,) = [
        one for one in as_dict(results.findings)["comparisons"] if (one["variant"], one["reference"]) == (verdict, "a")
    ]
    assert said["verdict"] == verdict
