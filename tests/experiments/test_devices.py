"""Which GPUs `--device auto` takes. The GPUs are those of a stub of torch, in the process that asks them."""

import pytest
import torch

from experiments.devices import free_gpus
from experiments.errors import UserError
from experiments.runs.run import pick_device
from sweeps.engines.local import local_slots

TORCH = """
class cuda:
    def device_count():
        return {count}
    def mem_get_info(gpu):
        free = {free}[gpu]
        if free is None:
            raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable")
        return free, 80
"""


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """A function that makes GPUs of 80 GiB with so much free memory; None: another process has it for itself."""

    def make(*free):
        (tmp_path / "torch.py").write_text(TORCH.format(count=len(free), free=free))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        free_gpus.cache_clear()

    yield make
    free_gpus.cache_clear()


@pytest.mark.parametrize(
    ("free", "taken", "left_out"),
    [((80, 79), (0, 1), ""), ((3, 80), (1,), "cuda:0"), ((40, 39, None), (0,), "cuda:1, cuda:2")],
)
def test_gpus_that_others_use_are_left_out_and_named(free, taken, left_out, gpus, capsys):
    gpus(*free)
    assert pick_device("auto") == torch.device("cuda", taken[0])
    assert [slot.device for slot in local_slots()] == [f"cuda:{gpu}" for gpu in taken]
    lines = capsys.readouterr().err.splitlines()
    line = f"device: auto leaves out {left_out}: others use more than half of its memory"
    assert lines == ([line] if left_out else [])  # once


@pytest.mark.parametrize("free", [(1,), (39, None), (0, 0, 0)])
def test_where_no_gpu_is_left_the_cpu_is_not_taken_in_silence(free, gpus):
    gpus(*free)
    names = ", ".join(f"cuda:{i}" for i in range(len(free)))
    with pytest.raises(UserError, match=f"^device: auto: others use more .* allowed: {names}, or cpu$"):
        pick_device("auto")


def test_a_driver_that_does_not_answer_is_one_line(tmp_path, monkeypatch, gpus):
    gpus(80)
    (tmp_path / "torch.py").write_text("raise ImportError('libcuda.so.1: cannot open')")
    with pytest.raises(UserError, match="the GPUs do not answer: ImportError: libcuda.so.1: cannot open$"):
        pick_device("auto")
