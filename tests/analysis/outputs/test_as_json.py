"""`vit-report STUDY --json`: what a script reads, against the schema below and statsmodels' paired t test."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic import exact, results_of, write_study

import analysis
from analysis.outputs.as_json import as_dict
from analysis.outputs.paper_table import paper_table
from analysis.runs.exported import export
from experiments.errors import UserError

NUMBER = {"type": ["number", "null"]}
ESTIMATE = {"value": NUMBER, "low": NUMBER, "high": NUMBER, "n": {"type": "integer", "minimum": 0}}
ALIKE = ["equivalent", "both at the ceiling"]
VERDICT = {"enum": ["better", "worse", *ALIKE, "not shown", "not tested"]}
REASON = {"type": ["string", "null"]}
NAMES = {"variant": {"type": "string"}, "reference": {"type": "string"}}
LOOK = {
    "planned": {"type": "array", "items": {"type": "integer"}},
    "look": {"type": "integer"},
    "next": {"type": ["integer", "null"]},
}

RANK = {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


def closed(properties):
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


COMPARISON = {**NAMES, **ESTIMATE, "p_adjusted": NUMBER, "verdict": VERDICT, "reason": REASON, "detectable": NUMBER}
SCHEMA = closed(
    {
        "schema": {"const": 1},
        "family": {"enum": ["all", "baseline"]},
        "study": {"type": "string"},
        "metric": {"type": "string"},
        "lower_is_better": {"type": "boolean"},
        "baseline": {"type": "string"},
        "margin": NUMBER,
        "level": {"const": 0.95},
        "look": {"anyOf": [{"type": "null"}, closed(LOOK)]},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "variants": {
            "type": "array",
            "items": closed({"variant": NAMES["variant"], **ESTIMATE, "failed": {"type": "integer"}, "rank": RANK}),
        },
        "comparisons": {"type": "array", "items": closed(COMPARISON)},
    }
)


def test_json_is_printed_without_a_report_and_counts_as_a_look(tmp_path, vit_report):
    study = write_study(tmp_path)
    code, out, _ = vit_report(study, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 0 and len(answer["comparisons"]) == 6 and not (study / "report").exists()
    assert (study / "looks.jsonl").read_text().count("\n") == 1


def test_the_numbers_of_two_variants_are_those_of_a_paired_t_test(tmp_path):
    a, b = [0.80, 0.82, 0.79, 0.81, 0.80], [0.84, 0.85, 0.84, 0.86, 0.83]
    answer = as_dict(exact(tmp_path, {"none": a, "learned-1d": b}))
    (pair,) = answer["comparisons"]
    found = stats.ttest_rel(b, a)
    assert (pair["variant"], pair["reference"], pair["n"]) == ("learned-1d", "none", 5)
    assert [pair["low"], pair["high"]] == pytest.approx([*found.confidence_interval(0.95)])
    assert pair["p_adjusted"] == pytest.approx(found.pvalue) and pair["value"] == pytest.approx(np.mean(b) - np.mean(a))


def test_a_look_says_the_next_one_and_one_seed_shows_nothing(tmp_path, vit_report):
    planned = write_study(tmp_path, seeds=3, looks=[3, 5], name="planned")
    look = json.loads(vit_report(planned, "--json")[1])["look"]
    assert (look["planned"], look["look"], look["next"]) == ([3, 5], 3, 5)
    alone = as_dict(results_of(tmp_path, seeds=1, name="alone"))
    jsonschema.validate(alone, SCHEMA)
    blank = {(pair["low"], pair["p_adjusted"], pair["detectable"]) for pair in alone["comparisons"]}
    said = {(pair["verdict"], pair["reason"]) for pair in alone["comparisons"]}
    assert (blank, said) == ({(None, None, None)}, {("not tested", "one common seed")})


@pytest.mark.parametrize("name", ["acc (top-1)", "err{x}", "val.acc", "acc@5", "loss (lower is better)", "eval/loss"])
def test_any_name_of_a_column_is_the_name_of_its_metric(name, tmp_path, vit_report):
    """In JSON, in Python, in a table for a paper and in an export; its direction is a field."""
    frame = pd.DataFrame({"kind": ["a"] * 3 + ["b"] * 3, "seed": [0, 1, 2] * 2, name: [1, 2, 3.5, 4, 6, 7]})
    for lower in (False, True):
        results = analysis.compare(
            frame, name, "kind", margin=6 if lower else None, **{f"{'lower' if lower else 'higher'}_is_better": True}
        )
        answer = as_dict(results.findings)
        assert (answer["metric"], answer["lower_is_better"]) == (name, lower)
        assert results.runs[name].tolist() == frame[name].tolist()
        assert paper_table(results.findings, ["variant", name], "sd").data[name].tolist() == pytest.approx(
            [6.5 / 3, 17 / 3]
        )
        assert answer["margin"] == (6 if lower else None)
        assert results.findings.all_best == (["a"] if lower else ["b"])
        again = export(results.findings.study, tmp_path / f"{lower}")
        code, out, _ = vit_report(again, "--json", "--metric", name)
        assert code == 0 and json.loads(out) == {**answer, "study": "the table"}


def test_a_metric_of_ours_has_its_own_direction():
    frame = pd.DataFrame({"kind": ["a", "b"] * 2, "seed": [0, 0, 1, 1], "test/acc": [0.1, 0.2, 0.2, 0.4]})
    with pytest.raises(UserError, match="lower_is_better: test/acc is a metric of ours, of which more is better"):
        analysis.compare(frame, "test/acc", "kind", lower_is_better=True)
    loss = frame.rename(columns={"test/acc": "test/loss"})
    assert analysis.compare(loss, "test/loss", "kind", lower_is_better=True).findings.means.metric.is_loss


def test_the_warnings_of_the_report_are_in_the_json(tmp_path, vit_report):
    study = write_study(tmp_path, seeds=3, statuses={("none", 1): "diverged", ("sinusoidal", 0): "pruned"})
    answer = json.loads(vit_report(study, "--json")[1])
    jsonschema.validate(answer, SCHEMA)
    said = "\n".join(answer["warnings"])
    assert "Diverged: 1 run of “none”. Means use the finished runs." in said and "Pruned: 1 of 12 runs." in said
    failed = {one["variant"]: one["failed"] for one in answer["variants"] if one["failed"]}
    assert failed == {"none": 1, "sinusoidal": 1}
    out = vit_report(study, "--out", tmp_path / "r")[1].replace("\n", " ")
    assert all(line.split(". ")[0] in out for line in answer["warnings"])
