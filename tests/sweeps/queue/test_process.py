"""Processes are told apart, on one machine and several."""

import subprocess
import time
from dataclasses import replace

import pytest
from stubbed import until

from sweeps.queue.process import LEASE_TIMEOUT, current_process, is_alive, process_info


def test_a_process_is_told_from_a_later_one_with_the_same_pid():
    me = current_process()
    assert is_alive(me)
    assert not is_alive(replace(me, start="1"))
    child = subprocess.Popen(["sleep", "600"])
    its = process_info(child.pid)
    assert is_alive(its)
    child.kill()
    until(lambda: not is_alive(its), seconds=5)  # a zombie until it is waited for: dead already
    child.wait()
    assert not is_alive(its)


@pytest.mark.parametrize("foreign", [{"namespace": 1}, {"boot": "another"}, {"host": "elsewhere"}])
def test_the_heartbeat_decides_about_a_process_of_another_namespace_boot_or_host(foreign):
    """Its pid means nothing here, not even where this machine has a process with it."""
    process = replace(current_process(), **foreign)
    assert is_alive(process)
    assert not is_alive(replace(process, heartbeat=time.time() - 2 * LEASE_TIMEOUT))
    assert not is_alive(process, silence=lambda heartbeat: 2 * LEASE_TIMEOUT)
