"""The plan of a user's table: what it may state, and the lines that it prints."""

import shlex
import subprocess

import pytest
from commands import refusal

from experiments.errors import UserError
from experiments.stated import baseline_of
from experiments.table_plan import EXAMPLE, GivenPlan

PLAN = {"name": "optimizers", "factors": {"method": ["sgd", "adam"]}, "metric": "acc", "margin": 0.5, "seeds": 5}


def plan(**fields):
    return GivenPlan.of({**PLAN, **fields}).plan


def without(name, **fields):
    return GivenPlan.of({key: value for key, value in {**PLAN, **fields}.items() if key != name}).plan


def test_the_example_is_a_plan(tmp_path):
    (tmp_path / "plan.yaml").write_text(EXAMPLE)
    read = GivenPlan.of(tmp_path / "plan.yaml").plan
    assert list(read.labels) == ["sgd", "adam", "muon"] and read.looks == [3, 5]
    assert read.line("muon", 4) == "mkdir -p runs; python train.py --opt muon --seed 4 --out runs/muon-4.json"


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"sedes": 5}, "plan: sedes: no such setting; did you mean 'seeds'?"),
        ({"seeds": 0}, "plan: seeds: 0 is not allowed: expected a number of seeds from 1"),
        ({"seeds": 2_000_000_000}, "factors, seeds: 2 variant(s) are 4,000,000,000 runs; allowed: up to 100,000"),
        ({"seeds": [1, 1]}, "plan: seeds: [1, 1] is not allowed"),
        ({"runs": 5}, "plan: seeds: are required, or runs without seeds; not both"),
        ({"margin": -1}, "plan: margin: -1 is not allowed: expected a number above 0"),
        ({"margin": True}, "plan: margin: True is not allowed"),
        ({"looks": [5, 3]}, "plan: looks: [5, 3] is not allowed: expected rising numbers"),
        ({"looks": [3, 4]}, "plan: seeds: 5 are more than the last planned look tests, 4"),
        ({"family": "some"}, "plan: family: 'some' is not allowed"),
        ({"until_decided": True}, "plan: looks: until_decided needs looks"),
        ({"until_decided": True, "looks": [3, 8]}, "plan: looks: until_decided needs looks, of which the last"),
        ({"until_decided": {"pairs": True}, "looks": [3, 5], "family": "baseline"}, "pairs need family: all"),
        ({"baseline": "sgdm"}, "plan: baseline: 'sgdm' is not a variant; did you mean 'sgd'?"),
        ({"factors": {"method": ["sgd", "sgd"]}}, "plan: factors: two variants are 'sgd'"),
        ({"factors": {"method": ["sgd"]}}, "plan: factors: have one variant"),
        ({"factors": {"seed": [1, 2]}}, "plan: factors: 'seed' is not allowed"),
        ({"factors": {"method": [["a"], "b"]}}, "expected a single value"),
        ({"factors": {"method": ["a\nb", "b"]}}, "expected a single value"),
        ({"extra": [{"lr": 1}]}, "plan: extra: lr is not a factor"),
        ({"command": "train {metod} {seed}"}, "plan: command: {metod} is not a factor; did you mean 'method'?"),
        ({"command": "train {method}"}, "plan: command: has no {seed}, so it is the same for several runs"),
        ({"command": "train '{method}' {seed}"}, "plan: command: a {COLUMN} stands in quotes"),
        ({"command": 'train "{method}" {seed}'}, "plan: command: a {COLUMN} stands in quotes"),
        ({"command": "train {method} {seed}\nrm x"}, "plan: command: has several lines"),
        ({"command": "train {method} {seed} '"}, "plan: command: No closing quotation"),
    ],
)
def test_a_plan_that_is_not_allowed_is_one_line(fields, said):
    assert said in refusal(plan, **fields)


def test_looks_need_the_order_of_seeds():
    assert without("seeds", runs=3).numbers == [0, 1, 2]
    with pytest.raises(UserError, match="looks: need the order of seeds"):
        without("seeds", runs=3, looks=[2, 3])
    with pytest.raises(UserError, match="seeds: are required"):
        without("seeds")


def test_a_variant_beyond_the_product_and_a_baseline_by_its_levels():
    grid = plan(factors={"method": ["sgd", "adam"], "lr": [0.1]}, extra=[{"method": "sgd", "lr": 1}])
    assert list(grid.labels) == ["method=sgd, lr=0.1", "method=adam, lr=0.1", "method=sgd, lr=1"]
    by_levels = plan(factors={"method": ["sgd", "adam"], "lr": [0.1, 1]}, baseline={"method": "adam", "lr": 1.0})
    assert baseline_of(by_levels.baseline, by_levels.labels) == "method=adam, lr=1"


def test_a_shell_reads_every_value_of_a_line_as_one_word():
    odd = ["a b", "$(touch x); 'c'", '`d` "e" \\']
    read = plan(factors={"method": odd}, baseline="a b", command="printf %s\\\\n {method} {seed} '{{}}'")
    for level in odd:
        line = read.line(level, 3)
        assert shlex.split(line)[-3:] == [level, "3", "{}"]
        assert subprocess.run(["sh", "-c", line], capture_output=True, text=True).stdout.splitlines()[0] == level
    assert shlex.split(plan(factors={"method": odd}, baseline="a b").line("a b", 3)) == ["method=a b", "seed=3"]


def test_the_commit_of_a_plan_is_known_where_git_holds_it_as_it_is(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(EXAMPLE)
    assert "as given" in GivenPlan.of(file).described()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "plan.yaml"], ["commit", "-qm", "plan", "--date", "2026-01-02T03:04:05Z"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert f"commit {commit}, 20" in GivenPlan.of(file).described()
    file.write_text(EXAMPLE.replace("0.5", "0.7"))
    assert "as given" in GivenPlan.of(file).described()


def test_the_repository_of_a_stranger_starts_no_program(tmp_path):
    file, trap = tmp_path / "plan.yaml", tmp_path / "ran"
    file.write_text(EXAMPLE)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "plan.yaml"], ["commit", "-qm", "plan"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    script = tmp_path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external", "core.sshCommand", "filter.a.clean"):
        subprocess.run([*git, "config", name, str(script)], check=True)
    subprocess.run([*git, "config", "log.showSignature", "true"], check=True)
    (tmp_path / ".gitattributes").write_text("* filter=a\n")
    assert "commit" in GivenPlan.of(file).described()
    assert not trap.exists()
