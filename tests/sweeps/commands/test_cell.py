"""vit-sweep cell: one run of a study that has been started."""

import json
from collections import Counter

import pytest
from stubbed import Stubbed
from study_file import read_study

from sweeps.commands.run import array_lines


@pytest.fixture
def states(stubbed, vit_sweep):
    """Run -> its state, as `vit-sweep status` tells it."""
    return lambda: {
        run["run"]: run["state"] for run in json.loads(vit_sweep("status", stubbed.dir, "--json")[1])["runs"]
    }


def test_cell_trains_the_named_run_once_however_it_is_named(stubbed, scripted, vit_sweep, states):
    name, engine = stubbed.write_plan()[3], scripted()
    for word in (f"run={name}", name):
        assert vit_sweep("cell", stubbed.dir, word)[:2] == (0, f"{name}: finished, test/acc 50.0 %\n")
    assert engine.tried == engine.ended == {name: 1}
    assert Counter(states().values()) == {"finished": 1, "waiting": 5}


def test_cells_beside_a_sweep_train_each_run_once(stubbed):
    names = stubbed.write_plan()
    commands = [stubbed.start("cell", stubbed.dir, name, nap=0.2) for name in (names[0], names[0], names[5])]
    commands.append(stubbed.start_run(nap=0.2))
    for command in commands:
        _, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
    assert stubbed.ended() == Counter(names) and not stubbed.trained_twice()


def test_cell_reports_a_run_that_fails_and_tries_it_again_the_next_time(stubbed, scripted, vit_sweep, states):
    name, engine = stubbed.write_plan()[0], scripted(fate=lambda run: RuntimeError("out of cheese"))
    status, out, _ = vit_sweep("cell", stubbed.dir, f"run={name}")
    assert status == 1 and engine.tried == {name: 3}
    assert f"failed: {name}: RuntimeError: out of cheese (see {stubbed.dir}/{name}/error.txt)" in out
    assert states()[name] == "failed"
    scripted()
    assert vit_sweep("cell", stubbed.dir, name)[0] == 0


def test_the_cells_of_a_planned_array_train_every_run_once(stubbed, scripted, vit_sweep):
    engine, words = scripted(), ("plan", stubbed.study, "--out", stubbed.folder)
    status, out, err = vit_sweep(*words)
    start = "6 runs, 6 left\nsbatch --array=0-5 array.sh\nin array.sh: vit-sweep cell "
    assert status == 0 and out.startswith(start) and not engine.tried, err
    assert vit_sweep(*words, "--seeds", 1)[1].startswith("6 runs, 2 left\nsbatch --array=0-1 array.sh\n")
    tree = read_study(stubbed.dir)
    for index, run in enumerate(tree["runs"]):
        assert vit_sweep("cell", stubbed.dir, "--index", index)[1].startswith(f"{run['run']}: finished, test/acc ")
    assert engine.ended == Counter(run["run"] for run in tree["runs"])
    assert vit_sweep("plan", stubbed.dir, "--seeds", "4")[1].startswith("8 runs, 2 left\nsbatch --array=6-7 array.sh\n")


def test_what_plan_prints_stays_below_the_limit_of_an_array():
    left = [0, 1, 2, 4, 999, *range(1000, 2000), 2001]
    lines = [
        "sbatch --array=0-2,4,999 array.sh",
        "sbatch --array=0-999 array.sh 1000",
        "sbatch --array=1 array.sh 2000",
    ]
    assert list(array_lines(left)) == lines and not list(array_lines([]))


def test_of_a_study_with_planned_looks_no_command_shows_a_test_result(tmp_path, scripted, vit_sweep):
    stubbed, _ = Stubbed(tmp_path, looks=[2, 3]), scripted()
    name = stubbed.write_plan()[0]
    status, out, err = vit_sweep("cell", stubbed.dir, name)
    assert status == 0 and out.startswith(f"{name}: finished") and "test/acc" not in out + err
    status, _, err = vit_sweep("run", stubbed.study, "--out", tmp_path)
    assert status == 0 and err.count(": finished") == 5 and "test/acc" not in err
