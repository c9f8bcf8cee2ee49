"""vit-sweep cell: one run of a study that has been started."""

import signal
from collections import Counter

from stubbed import Stubbed, until
from study_file import read_study

from sweeps.commands.run import array_lines


def test_cell_trains_the_named_run_once_however_it_is_named(stubbed):
    name = stubbed.write_plan()[3]
    for word in (f"run={name}", name):
        status, out, err = stubbed("cell", stubbed.dir, word)
        assert status == 0, err
        assert out.endswith(f"{name}: finished, test/acc 51.0 %\n")
    assert stubbed.started() == stubbed.ended() == {name: 1}
    assert Counter(stubbed.states().values()) == {"finished": 1, "waiting": 5}


def test_cells_beside_a_sweep_train_each_run_once(stubbed):
    names = stubbed.write_plan()
    commands = [stubbed.start("cell", stubbed.dir, name, nap=0.2) for name in (names[0], names[0], names[5])]
    commands.append(stubbed.start_run(nap=0.2))
    for command in commands:
        _, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
    assert stubbed.ended() == Counter(names) and not stubbed.trained_twice()


def test_cell_reports_a_run_that_fails_and_tries_it_again_the_next_time(stubbed):
    name = stubbed.write_plan()[0]
    status, out, _ = stubbed("cell", stubbed.dir, f"run={name}", **{"seed 0": "raise"})
    assert status == 1 and stubbed.started()[name] == 3
    assert f"failed: {name}: RuntimeError: out of cheese (see {stubbed.dir}/{name}/error.txt)" in out
    assert stubbed.states()[name] == "failed"
    assert stubbed("cell", stubbed.dir, name)[0] == 0


def test_a_signal_ends_it_and_the_run_is_interrupted(stubbed):
    name = stubbed.write_plan()[0]
    process = stubbed.start("cell", stubbed.dir, name, nap=60)
    until(lambda: stubbed.started()[name] == 1)
    process.send_signal(signal.SIGUSR2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR2, err
    until(lambda: stubbed.states()[name] == "waiting")  # no epoch was saved


def test_the_cells_of_a_planned_array_train_every_run_once(stubbed):
    status, out, err = stubbed("plan", stubbed.study, "--out", stubbed.folder)
    assert status == 0 and out.startswith(
        "6 runs, 6 left\nsbatch --array=0-5 array.sh\nin array.sh: vit-sweep cell "
    ), err
    tree = read_study(stubbed.dir)
    assert tree["command"] == f"vit-sweep run {stubbed.study} --out {stubbed.folder}" and not stubbed.log.exists()
    for index, run in enumerate(tree["runs"]):
        assert stubbed("cell", stubbed.dir, "--index", index)[1].startswith(f"{run['run']}: finished, test/acc ")
    assert stubbed.ended() == Counter(run["run"] for run in tree["runs"])
    assert stubbed("plan", stubbed.dir, "--seeds", "4")[1].startswith("8 runs, 2 left\nsbatch --array=6-7 array.sh\n")


def test_what_plan_prints_stays_below_the_limit_of_an_array():
    left = [0, 1, 2, 4, 999, *range(1000, 2000), 2001]
    lines = [
        "sbatch --array=0-2,4,999 array.sh",
        "sbatch --array=0-999 array.sh 1000",
        "sbatch --array=1 array.sh 2000",
    ]
    assert list(array_lines(left)) == lines and not list(array_lines([]))


def test_of_a_study_with_planned_looks_no_command_shows_a_test_result(tmp_path):
    stubbed = Stubbed(tmp_path, looks=[2, 3])
    name = stubbed.write_plan()[0]
    status, out, err = stubbed("cell", stubbed.dir, name)
    assert status == 0 and out.startswith(f"{name}: finished") and "test/acc" not in out + err
    status, _, err = stubbed.run()
    assert status == 0 and err.count(": finished") == 5 and "test/acc" not in err
