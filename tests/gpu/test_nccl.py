"""NCCL between two ranks that share the one GPU.

NCCL refuses two ranks on one GPU of one machine. ``NCCL_HOSTID`` has it take these for two machines: it sends
over the network, and its kernels, which wait at full speed, take turns on the device.
"""

from __future__ import annotations

import re
import time
from importlib.util import find_spec

import pytest

from nbdist import panel, runner
from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks
from nbdist.model import CellStarted
from nbdist.store import RunStore, read_events
from tests.gpu.test_one_gpu import GB, GPU, GPUS, LIMIT, cuda_build, used
from tests.magics.conftest import Kernel, by_rank, kernel, leaves_nothing_in
from tests.programs import until, until_ready

__all__ = ["kernel", "leaves_nothing_in"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(not GPUS, reason="this machine has no GPU"),
    pytest.mark.skipif(not cuda_build(), reason="torch is its CPU build"),
]

SHARED = f"""
import os, time, datetime
os.environ.update(CUDA_VISIBLE_DEVICES="{GPU}", NCCL_HOSTID=os.environ["RANK"], NCCL_SOCKET_IFNAME="lo")
import torch, torch.distributed as dist
"""
JOINED = (
    SHARED
    + """
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=TIMEOUT))
rank = dist.get_rank()
tensor = torch.ones(4, device="cuda")
dist.all_reduce(tensor)
print("ready", int(tensor[0]), flush=True)
"""
)


def joined(more: str, timeout: int = 600) -> str:
    """Return a program whose ranks meet once, then run ``more`` from line 11 on."""
    return JOINED.replace("TIMEOUT", str(timeout)) + more


def report(handle: runner.RunHandle) -> str:
    return panel.run_report(handle.run, handle.directory, "en")


def stalled(handle: runner.RunHandle) -> str:
    """Return the sentence about a stalled run, and stop it."""
    until_ready(handle, LIMIT)
    until(lambda: handle.run.stalled is not None or handle.run.state.terminal, LIMIT)
    stacks = last_stacks(handle.run, handle.directory)
    assert stacks is not None, handle.logs(0) + report(handle)
    assert handle.stop() == "stopped"
    return sentence(stacks)


@pytest.mark.usefixtures("leaves_nothing")
class TestRuns:
    def test_two_ranks_meet(self, run_cell) -> None:
        handle = run_cell("-n 2", joined("dist.destroy_process_group()"), limit=LIMIT)

        assert handle.status == "finished", handle.logs(0)
        assert [handle.logs(rank).split()[-2:] for rank in (0, 1)] == [["ready", "2"]] * 2

    def test_a_rank_that_leaves_a_collective_out_is_named(self, start_cell) -> None:
        handle = start_cell(
            "-n 2 --hang-after 5s",
            joined("if rank == 0:\n    dist.all_reduce(tensor)\n    print(tensor.sum())\ntime.sleep(600)\n"),
        )

        text = stalled(handle)

        assert "line 12" in text or "line 13" in text, text
        assert "line 14" in text, text

    def test_other_collectives_are_told_apart(self, start_cell) -> None:
        handle = start_cell(
            "-n 2 --hang-after 5s",
            joined(
                "if rank == 0:\n    dist.all_reduce(tensor)\nelse:\n    dist.broadcast(tensor, 0)\n"
                "dist.barrier()\ntorch.cuda.synchronize()\n"
            ),
        )

        text = stalled(handle)

        assert "all_reduce" in text, text
        assert "broadcast" in text, text

    def test_the_watchdog_of_nccl_is_explained(self, run_cell) -> None:
        handle = run_cell(
            "-n 2",
            joined(
                "if rank == 0:\n    dist.all_reduce(tensor)\n    torch.cuda.synchronize()\ntime.sleep(60)\n",
                8,
            ),
            limit=LIMIT,
        )

        assert handle.status == "failed"
        assert "all_reduce" in report(handle), report(handle)

    def test_the_failure_of_one_ends_the_other_in_its_kernel(self, start_cell) -> None:
        before = used()
        handle = start_cell(
            "-n 2",
            joined(
                "held = torch.ones(1 << 28, device='cuda')\nif rank == 1:\n    time.sleep(2)\n"
                "    raise KeyError('mine')\ndist.all_reduce(tensor)\nprint(tensor.sum().item())\n"
            ),
        )
        until_ready(handle, LIMIT)

        assert handle.wait(30) == "failed"

        assert "KeyError" in report(handle)
        assert "line 14" in report(handle)
        until(lambda: used() - before < GB, 10)


INIT = "%%ranks -n 2\n" + joined("kept = torch.arange(1000, device='cuda')")
SUM = "%%ranks\nt = torch.ones(1, device='cuda')\ndist.all_reduce(t)\nprint(int(t), int(kept.sum()))"
ROUNDS = 3


def test_ranks_of_a_session_come_back_from_nccl_and_meet_anew(kernel: Kernel) -> None:
    begun = kernel.run(INIT, limit=LIMIT)
    assert begun.status == "ok", begun.stdout + begun.error
    directory = RunStore(kernel.home).directories()[0]

    def cells() -> int:
        return sum(isinstance(event, CellStarted) for event in read_events(directory.journal))

    for _ in range(ROUNDS):
        alone = kernel.run(
            "%%ranks\nif rank == 1: raise ValueError('mine')\ndist.barrier()\ntorch.cuda.synchronize()"
        )
        assert "rank 1: ValueError: mine (line 2)" in alone.error
        rejoined = kernel.run(SUM)
        assert [lines[-1] for lines in by_rank(rejoined.stdout).values()] == ["2 499500"] * 2, (
            alone.error + rejoined.stdout + rejoined.error
        )

        before = cells()
        stuck = kernel.submit(
            "%%ranks\ndist.recv(torch.ones(4, device='cuda'), src=1 - rank)\ntorch.cuda.synchronize()"
        )
        until(lambda before=before: cells() > before)
        time.sleep(2)
        kernel.interrupt()
        interrupted = kernel.collect(stuck)
        assert interrupted.error.startswith("KeyboardInterrupt: cell "), interrupted.error
        again = kernel.run(SUM)
        assert [lines[-1] for lines in by_rank(again.stdout).values()] == ["2 499500"] * 2, (
            again.stdout + again.error
        )

    kernel.run("%dist_session end")


def test_a_tensor_of_the_gpu_comes_into_the_notebook_as_one_of_the_cpu(kernel: Kernel) -> None:
    cell = (
        f"%%distributed --gpus {GPU} --pull total\n"
        "import torch, nbdist\nnbdist.result(total=torch.arange(4., device='cuda'))\n"
    )

    ran = kernel.run(cell, limit=LIMIT)
    shown = kernel.run("print(total.device, total.sum().item())", limit=LIMIT)

    assert ran.status == "ok", ran.stdout + ran.error
    assert shown.stdout == "cpu 6.0\n", shown.stdout + shown.error


def test_a_session_says_what_it_holds_of_its_gpu(kernel: Kernel) -> None:
    begun = kernel.run(
        f"%%ranks --gpus {GPU}\nimport torch\nheld = torch.ones(1 << 28, device='cuda')", limit=LIMIT
    )
    assert begun.status == "ok", begun.stdout + begun.error

    text = kernel.run("%dist_session").stdout
    kernel.run("%dist_session end")

    assert re.search(r"memory [\d.]+ [MG]B; GPU 1\.\d GB;", text), text
