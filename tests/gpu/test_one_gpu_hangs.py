"""Ranks that wait for their GPU at full speed hang, unlike those that compute on it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks
from tests.gpu.test_one_gpu import GPU, GPUS, LIMIT, cuda_build
from tests.programs import until, until_ready

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(not GPUS, reason="this machine has no GPU"),
    pytest.mark.skipif(not cuda_build(), reason="torch is its CPU build"),
]

# a kernel that does not end stands for a peer that does not come: what is queued behind it waits as long
HANGS = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
tensor = torch.ones(4, device="cuda")
dist.all_reduce(tensor)
print("ready", tensor.sum().item(), flush=True)
torch.cuda._sleep(1 << 42)
dist.all_reduce(tensor)
loss = tensor.sum().item()
"""

COMPUTES = """
import time, torch, torch.distributed as dist
dist.init_process_group("nccl")
matrix = torch.randn(2048, 2048, device="cuda")
end = time.monotonic() + 40
print("ready", flush=True)
while time.monotonic() < end:
    for _ in range(50): matrix = torch.nn.functional.normalize(matrix @ matrix)
    dist.all_reduce(matrix)
    loss = matrix.sum().item()
dist.destroy_process_group()
"""


def test_a_rank_that_waits_for_a_collective_on_its_gpu_hangs(start_cell) -> None:
    handle = start_cell(f"--gpus {GPU} --hang-after 5s", HANGS)
    until_ready(handle, LIMIT)

    until(lambda: handle.run.stalled is not None or handle.run.state.terminal, LIMIT)

    report = last_stacks(handle.run, handle.directory)
    assert report is not None, handle.logs(0)
    assert "at line 9" in sentence(report), sentence(report)


def test_a_rank_that_computes_on_its_gpu_without_a_word_does_not_hang(start_cell) -> None:
    handle = start_cell(f"--gpus {GPU} --hang-after 3s", COMPUTES)

    assert handle.wait(LIMIT) == "finished", handle.logs(0)
    assert "Stalled" not in handle.directory.journal.read_text()
