"""`--alert`: W&B tells the user that a sweep has ended."""

import os

import pytest


def alerts(server):
    return [(alert["severity"], alert["title"], alert["text"]) for alert in server.alerts]


def test_an_alert_tells_that_a_sweep_has_ended_and_how_many_runs_failed(stubbed, server, scripted, vit_sweep):
    words = ("run", stubbed.study, "--out", stubbed.folder, "--alert")
    scripted(fate=lambda run: RuntimeError("out of cheese") if run.seed == 1 else {})
    status, _, err = vit_sweep(*words)
    assert status == 1, err
    assert alerts(server) == [("ERROR", "tiny: sweep ended", "6 runs: 4 finished, 2 failed")]
    assert [run.state for run in server.runs.values()] == ["finished"] * 4
    assert server.alerts[0]["runName"] in server.runs
    scripted()
    assert vit_sweep(*words)[0] == 0
    assert alerts(server)[1:] == [("INFO", "tiny: sweep ended", "6 runs: 6 finished")]
    for entry in stubbed.dir.iterdir():
        os.utime(entry, (1, 1))  # a record of the last second counts as one of the next command: times may be rounded
    assert vit_sweep(*words)[0] == 0  # it trains nothing
    assert len(server.alerts) == 2


@pytest.mark.parametrize("flags", [[], ["--alert", "--tracking", "offline"], ["--alert", "--tracking", "off"]])
def test_without_the_flag_or_without_a_server_there_is_no_alert(stubbed, server, flags, scripted, vit_sweep):
    scripted()
    status, out, err = vit_sweep("run", stubbed.study, "--out", stubbed.folder, "--seeds", 1, *flags)
    assert status == 0, err
    assert "2 runs: 2 finished" in out and "cannot be used" not in err
    assert server.alerts == []
