"""study.json: the plan is read, checked and written by one class, and written back byte for byte."""

import json
from pathlib import Path

import pytest
import tiny

from experiments.compared import RunSpec
from experiments.files import RecordError
from experiments.study import Study

REFERENCE = sorted((Path(__file__).parents[2] / "analysis" / "reference").rglob("study.json"))
RUN = {"run": "a-s0", "run_id": "0123", "variant": "a", "levels": {"model.depth": 1}, "seed": 0}
REQUIRED = {
    "name": "s",
    "factors": {"model.depth": [1, 2]},
    "baseline": "a",
    "metric": "test/acc",
    "margin": 0.01,
    "seeds": [0],
    "base": {"model": {"depth": 2}},
    "runs": [RUN],
}


def refusal(folder: Path, text: str) -> str:
    """Why study.json with this text is refused, in one line that names the file."""
    (folder / "study.json").write_text(text)
    with pytest.raises(RecordError) as refused:
        Study.read(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"{folder / 'study.json'}: ")


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.parent.name)
def test_a_reference_study_is_written_as_it_was_read(path):
    tree = {name: value for name, value in json.loads(path.read_text(encoding="utf-8")).items() if name != "export"}
    plan = Study.parse(tree, str(path))
    assert [run.run_id for run in plan.runs] == [entry["run_id"] for entry in tree["runs"]]
    assert (plan.name, plan.baseline, plan.margin, plan.base) == tuple(
        tree[key] for key in ("name", "baseline", "margin", "base")
    )
    assert json.dumps(plan.tree(), ensure_ascii=False) == json.dumps(tree, ensure_ascii=False)


def test_fields_that_were_not_given_are_not_written(tmp_path):
    Study.parse(REQUIRED, "here").write(tmp_path)
    assert json.loads((tmp_path / "study.json").read_text()) == {"schema": 2, **REQUIRED}


@pytest.mark.parametrize("missing", ["name", "factors", "runs"])
def test_a_study_without_one_of_its_parts_is_refused(missing, tmp_path):
    text = json.dumps({"schema": 2, **{key: value for key, value in REQUIRED.items() if key != missing}})
    assert refusal(tmp_path, text) == f"{missing}: is required"


BAD_NAMES = ("", "..", "../x", "a/b", "x\0y", "locks", "wandb", "driver.lock", "optuna.db", "sweep.log", "study.json")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": 3}, "schema: 3 "),
        ({"margin": 0}, "margin: 0 "),
        ({"looks": [5, 3]}, "looks: [5, 3] "),
        ({"seeds": [0.5]}, "seeds: [0.5] "),
        ({"factors": {"model.depth": 1}}, "factors.model.depth: 1 "),
        ({"base": {"model": 1}}, "base: model: '1' "),
        ({"base": {"data": {"name": []}}}, "base: data.name: '[]' is not a name"),
        ({"runs": [{**RUN, "levels": {"model.pos_embed": {}}}]}, "runs: model.pos_embed: '{}' is not a name"),
        ({"baseline": "b"}, "baseline: no run has the variant 'b'"),
        ({"runs": [RUN, RUN]}, "runs: a-s0 is listed twice"),
        ({"runs": [RUN, {**RUN, "run": "b"}]}, "runs: b has the variant and seed of a-s0"),
        ({"runs": [{**RUN, "seed": "0"}]}, "runs.0.seed: '0' "),
        ({"runs": [{"run": "a"}]}, "runs.0.run_id: is required"),
        ({"seeds": [0, 1]}, "seeds: [0, 1] are not the seeds of the runs, [0]"),
        *[({"runs": [{**RUN, "run": name}]}, f"runs: {name!r} is not the name of a folder") for name in BAD_NAMES],
        ({"typo": 1}, "typo: no such "),
    ],
)
def test_what_is_wrong_is_named_with_its_value(change, field, tmp_path):
    assert refusal(tmp_path, json.dumps({"schema": 2, **REQUIRED, **change})).startswith(field)


@pytest.mark.parametrize(
    ("text", "reason"), [("", "is not JSON"), ("[]", "holds a JSON list"), ("[" * 100_000, "is nested too deeply")]
)
def test_a_file_that_is_no_object_is_refused(text, reason, tmp_path):
    said = refusal(tmp_path, text)
    assert said.startswith(reason)
    assert said.endswith("; move it away; the same `vit-sweep run` writes it again, and finished runs stay")


def test_a_study_of_an_earlier_version_is_refused_with_the_commit_that_resumes_it(tmp_path):
    said = refusal(tmp_path, json.dumps({"schema": 1, **REQUIRED}))
    assert said == "is of an earlier version; commit 5882561a, or the one in its records, reads and resumes it"


def test_a_run_of_a_configuration_is_named_by_its_id():
    config = tiny.config(seed=3)
    run = RunSpec.of("depth-{}", config, "1", {"model.depth": config.model.depth})
    assert (run.name, run.seed, run.config) == (f"depth-{run.run_id[:8]}", 3, config)
    assert "settings" not in run.model_dump()
