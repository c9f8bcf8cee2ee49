"""`vit-report STUDY --json`: what a script reads, against the schema below and statsmodels' paired t test."""

import json

import jsonschema
import numpy as np
import pytest
from scipy import stats
from synthetic import exact, results_of, write_study

from analysis.as_json import as_dict
from analysis.main import main

NUMBER = {"type": ["number", "null"]}
ESTIMATE = {"value": NUMBER, "low": NUMBER, "high": NUMBER, "n": {"type": "integer", "minimum": 0}}
ALIKE = ["equivalent", "equal on all seeds", "both at the ceiling", "both near chance"]
VERDICT = {"enum": ["better", "worse", *ALIKE, "not shown", "not tested"]}
REASON = {"type": ["string", "null"]}
NAMES = {"variant": {"type": "string"}, "reference": {"type": "string"}}
LOOK = {
    "planned": {"type": "array", "items": {"type": "integer"}},
    "look": {"type": "integer"},
    "next": {"type": ["integer", "null"]},
    "undecided": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
}


def closed(properties):
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


COMPARISON = {**NAMES, **ESTIMATE, "p_adjusted": NUMBER, "verdict": VERDICT, "reason": REASON, "detectable": NUMBER}
SCHEMA = closed(
    {
        "schema": {"const": 1},
        "study": {"type": "string"},
        "metric": {"type": "string"},
        "lower_is_better": {"type": "boolean"},
        "baseline": {"type": "string"},
        "margin": NUMBER,
        "level": {"const": 0.95},
        "look": {"anyOf": [{"type": "null"}, closed(LOOK)]},
        "variants": {
            "type": "array",
            "items": closed({"variant": NAMES["variant"], **ESTIMATE, "failed": {"type": "integer"}}),
        },
        "comparisons": {"type": "array", "items": closed(COMPARISON)},
    }
)


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return end.value.code, capsys.readouterr().out


def test_json_is_printed_without_a_report_and_counts_as_a_look(tmp_path, capsys):
    study = write_study(tmp_path)
    code, out = printed(capsys, study, "--json")
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


def test_a_look_says_what_is_open_and_one_seed_shows_nothing(tmp_path, capsys):
    planned = write_study(tmp_path, seeds=3, looks=[3, 5], name="planned")
    look = json.loads(printed(capsys, planned, "--json")[1])["look"]
    assert (look["planned"], look["look"], look["next"]) == ([3, 5], 3, 5)
    alone = as_dict(results_of(tmp_path, seeds=1, name="alone"))
    jsonschema.validate(alone, SCHEMA)
    blank = {(pair["low"], pair["p_adjusted"], pair["detectable"]) for pair in alone["comparisons"]}
    said = {(pair["verdict"], pair["reason"]) for pair in alone["comparisons"]}
    assert (blank, said) == ({(None, None, None)}, {("not tested", "one common seed")})


def test_the_column_of_a_table_is_the_metric(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "kind,seed,err\n" + "".join(f"{k},{s},{s + (k == 'b')}.5\n" for k in "ab" for s in range(3))
    )
    flags = ("--metric", "err", "--factor", "kind", "--lower-is-better", "--json")
    answer = json.loads(printed(capsys, f"csv:{tmp_path / 't.csv'}", *flags)[1])
    jsonschema.validate(answer, SCHEMA)
    assert (answer["metric"], answer["lower_is_better"], answer["margin"]) == ("err", True, None)
