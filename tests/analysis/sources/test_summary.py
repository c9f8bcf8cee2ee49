"""Values that cannot be are refused by name, also where the digest fits; so are plans that count a run twice."""

import json

import pytest
from synthetic import write_study

from analysis.sources.read import read
from experiments.runs import record


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, epochs=2)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"test/acc": 70.0}, "test/acc: 70 is not allowed: expected a fraction from 0 to 1"),
        ({"val/acc": -1}, "val/acc: -1 is not allowed: expected a fraction from 0 to 1"),
        ({"test/acc": "high"}, "test/acc: 'high' is not allowed: expected a number"),
        ({"test/acc": [1]}, "test/acc: '[1]' is not allowed: expected a number"),
        ({"test/loss": True}, "test/loss: 'True' is not allowed: expected a number"),
        ({"epochs": "x"}, "epochs: 'x' is not allowed: input should be a valid integer"),
        ({"cost": "x"}, "cost: 'x' is not allowed: input should be a valid dictionary"),
        ({"provenance": {"started": 5}}, "provenance.started: 5 is not allowed: input should be a valid string"),
        ({"provenance": {"plugin": "x"}}, "provenance.plugin: 'x' is not allowed: input should be a valid dictionary"),
        ({"planned": {"fields": "x y"}}, "planned.fields: 'x y' is not allowed: input should be a valid dictionary"),
    ],
)
@pytest.mark.parametrize("planned", [True, False], ids=["study", "runs without a plan"])
def test_value_that_cannot_be_is_refused(folder, values, said, planned):
    run = folder / "v0-s0"
    kept = {key: value for key, value in record.read_summary(run).items() if key not in ("files", "digest")}
    record.write_summary(run, {**kept, **values})
    if not planned:
        (folder / record.STUDY).unlink()
    with pytest.raises(record.RecordError) as refused:
        read(str(folder))
    assert str(refused.value).startswith(f"{run / record.SUMMARY}: {said}")
    assert "v0-s0" in read(str(folder), skip_unreadable=True).troubles


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: {"runs": [*plan["runs"], plan["runs"][0]]}, "runs: v0-s0 is listed twice"),
        (
            lambda plan: {"runs": [*plan["runs"], {**plan["runs"][0], "run": "copy"}]},
            "runs: copy has the variant and seed of v0-s0",
        ),
        (lambda plan: {"runs": [{**plan["runs"][0], "seed": "zero"}]}, "runs.0.seed: 'zero' is not allowed"),
        (lambda plan: {"factors": {"model.pos_embed": 3}}, "factors.model.pos_embed: 3 is not allowed"),
        (lambda plan: {"base": {"model": 3}}, "base: model: '3' is not a section of settings"),
        (lambda plan: {"seeds": None}, "seeds: None is not allowed"),
        (lambda plan: {"seeds": ["a"]}, "seeds.0: 'a' is not allowed"),
        (lambda plan: {"name": ["x"]}, "name: ['x'] is not allowed"),
        (lambda plan: {"command": 3}, "command: 3 is not allowed"),
        (lambda plan: {"notes": "x"}, "notes: 'x' is not allowed"),
    ],
)
def test_plan_that_cannot_be_is_refused(folder, change, said):
    path = folder / record.STUDY
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, **change(plan)}))
    with pytest.raises(record.RecordError) as refused:
        read(str(folder))
    assert str(refused.value).startswith(f"{path}: {said}")
