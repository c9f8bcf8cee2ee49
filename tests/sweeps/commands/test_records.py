"""A record that is damaged, or that of another run, is refused in one line by every command that reads it."""

import json
import os
import re
from collections import Counter

import pytest
from stubbed import finish, tiny_plan

from experiments.runs import record


def exchanged(first, second):
    first.rename(first.with_name("third"))
    second.rename(first)
    first.with_name("third").rename(second)


def damaged(first, _):
    (first / "summary.json").write_text('{"status": "fin')


def pipe(first, _):
    (first / "summary.json").unlink()
    os.mkfifo(first / "summary.json")


@pytest.mark.parametrize(
    ("change", "reason"), [(exchanged, "belongs to run"), (damaged, "is not JSON"), (pipe, "is not a file")]
)
def test_every_command_refuses_a_record_that_is_not_that_of_its_run(stubbed, vit_sweep, refused, change, reason):
    first, second, *_ = (stubbed.dir / name for name in stubbed.write_plan())
    for run in tiny_plan().runs:
        finish(stubbed.dir / run.name, run)
    change(first, second)
    changed = [first.name, *([second.name] if change is exchanged else [])]
    study = (stubbed.study, "--out", stubbed.folder)
    for words in (("run", *study), ("run", *study, "--dry-run"), ("cell", stubbed.dir, first.name)):
        assert f"{first}/summary.json: {reason}" in refused(*words), words
    shown = {run["run"]: run for run in json.loads(vit_sweep("status", stubbed.dir, "--json")[1])["runs"]}
    bad = [name for name, run in shown.items() if run["state"] == "unreadable"]
    assert len(shown) == 6 and bad == [name for name in shown if name in changed]
    assert all(f"{stubbed.dir / name}/summary.json: {reason}" in shown[name]["error"] for name in bad)
    status, out, _ = vit_sweep("status", stubbed.dir)
    assert status == 0 and f"{len(bad)} unreadable" in out
    assert len(re.findall("-s0-[0-9a-f]+ +unreadable", out)) == len(bad)


@pytest.mark.parametrize("options", [["run"], ["run", "--dry-run"], ["wandb", "--seeds", "4"]], ids=" ".join)
def test_a_command_reads_each_record_once(stubbed, vit_sweep, monkeypatch, options):
    """Also where it notes a look, because it plans more seeds."""
    stubbed.write_plan()
    for run in tiny_plan().runs:
        finish(stubbed.dir / run.name, run)
    reads, read_run = Counter(), record.read_run
    monkeypatch.setattr(record, "read_run", lambda path, **more: reads.update([path.name]) or read_run(path, **more))
    command, *more = options
    status, *_ = vit_sweep(command, stubbed.study, "--out", stubbed.folder, *more)
    assert status == 0 and reads == Counter(run.name for run in tiny_plan().runs)
