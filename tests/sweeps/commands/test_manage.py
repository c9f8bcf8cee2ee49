"""vit-sweep retry and cancel change what running and later sweeps do."""

from stubbed import until


def test_retry_names_the_runs_that_have_not_failed(stubbed, vit_sweep):
    name = stubbed.write_plan()[0]
    assert vit_sweep("retry", stubbed.dir) == (0, "no failed run to train again\n", "")
    assert vit_sweep("retry", stubbed.dir, name)[1] == f"no failed run to train again; {name}: no failed attempt\n"


def test_cancel_stops_a_sweep_and_nothing_is_trained_until_it_is_taken_back(stubbed, vit_sweep):
    names = stubbed.write_plan()
    sweep = stubbed.start("worker", stubbed.dir, "--workers", 1, nap=120)
    until(lambda: stubbed.started()[names[0]] == 1)
    status, out, _ = vit_sweep("cancel", stubbed.dir)
    assert (status, out.splitlines()[0]) == (0, "tiny: cancelled; 1 run in training will stop")
    _, err = sweep.communicate(timeout=60)
    again = f"vit-sweep retry {stubbed.dir}, then run the same command again"
    said = f"vit-sweep: the study was cancelled; to continue: {again}"
    assert (sweep.returncode, err.splitlines()[-1]) == (1, said)
    assert stubbed.states()[names[0]] == "interrupted"
    status, _, err = stubbed("worker", stubbed.dir, "--workers", 1)
    assert (status, err.splitlines()[-1]) == (1, said)
    assert sum(stubbed.started().values()) == 1, "a run was trained although the study was cancelled"
    assert vit_sweep("retry", stubbed.dir)[0] == 0
    assert stubbed("worker", stubbed.dir, "--workers", 2)[0] == 0
    assert set(stubbed.ended()) == set(names)


def test_a_cancelled_sweep_resumes_with_the_same_command(stubbed, vit_sweep):
    words = ["run", stubbed.study, "--out", stubbed.folder, "--seeds", 1, "--workers", 3]  # an idle one polls often
    sweep = stubbed.start(*words, nap=120)
    stubbed.wait_for("start")
    vit_sweep("cancel", stubbed.dir)
    _, err = sweep.communicate(timeout=60)
    said = "vit-sweep: the study was cancelled; to continue: run the same command again"
    assert (sweep.returncode, err.splitlines()[-1]) == (1, said)
    assert stubbed(*words)[0] == 0
    assert len(stubbed.ended()) == 2


def test_in_a_cancelled_study_only_runs_that_have_ended_are_reported(stubbed, vit_sweep):
    first, second, *_ = stubbed.write_plan()
    assert stubbed("cell", stubbed.dir, first)[0] == 0
    vit_sweep("cancel", stubbed.dir)
    status, out, err = stubbed("cell", stubbed.dir, first)
    assert (status, out.splitlines()[-1]) == (0, f"{first}: finished, test/acc 50.0 %"), err
    status, _, err = stubbed("cell", stubbed.dir, second)
    assert status == 1
    assert f"the study was cancelled; to continue: vit-sweep retry {stubbed.dir}, then run the same command" in err
    assert stubbed.started() == {first: 1}
