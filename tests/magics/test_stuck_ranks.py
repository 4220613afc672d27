"""``%%ranks`` with torch and paddle: ranks that are stuck return, and join a new group."""

from __future__ import annotations

import pytest

from tests.magics.conftest import Kernel, by_rank, submitted

INIT = """%%ranks -n 2
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
kept = torch.arange(1000)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
"""
SUM = "%%ranks\nt = torch.ones(1)\ndist.all_reduce(t)\nprint(int(t), int(kept.sum()))"


def test_ranks_that_wait_for_each_other_come_back_and_meet_anew(kernel: Kernel) -> None:
    pytest.importorskip("torch")
    begun = kernel.run(INIT)
    assert begun.status == "ok", begun.stdout + begun.error

    alone = kernel.run("%%ranks\nif rank == 1: raise ValueError('mine')\ndist.barrier()")
    rejoined = kernel.run(SUM)
    stuck = submitted(kernel, "%%ranks\ndist.recv(torch.ones(4), src=1 - rank)")
    kernel.interrupt()
    interrupted = kernel.collect(stuck)
    again = kernel.run(SUM)
    by_hand = kernel.run("%%ranks\nimport nbdist\nnbdist.rejoin()\ndist.barrier()\nprint('met')")
    kernel.run("%dist_session end")

    assert "rank 1: ValueError: mine (line 2)" in alone.error
    assert "rank 0 waited for other ranks in line 3" in alone.error
    assert "to be made again: model (DistributedDataParallel)" in rejoined.stdout
    assert [lines[-1] for lines in by_rank(rejoined.stdout).values()] == ["2 499500"] * 2
    assert interrupted.error.startswith("KeyboardInterrupt: cell ")
    assert [lines[-1] for lines in by_rank(again.stdout).values()] == ["2 499500"] * 2
    assert [lines[-1] for lines in by_rank(by_hand.stdout).values()] == ["met"] * 2


PADDLE_INIT = """%%ranks -n 2 --framework paddle
import paddle, paddle.distributed as dist
dist.init_parallel_env()
rank, kept = dist.get_rank(), paddle.arange(1000)
model, pair = paddle.DataParallel(paddle.nn.Linear(4, 1)), dist.new_group([0, 1])
"""
PADDLE_SUM = """%%ranks
t, again = paddle.ones([1]), paddle.ones([1])
dist.all_reduce(t)
dist.all_reduce(again, group=dist.new_group([0, 1]))
print(int(t[0]), int(again[0]), int(kept.sum()))
"""


def test_ranks_of_paddle_meet_anew(kernel: Kernel) -> None:
    pytest.importorskip("paddle")
    begun = kernel.run(PADDLE_INIT)
    assert begun.status == "ok", begun.stdout + begun.error

    alone = kernel.run("%%ranks\nif rank == 1: raise ValueError('mine')\ndist.barrier()")
    rejoined = kernel.run(PADDLE_SUM)
    by_hand = kernel.run(PADDLE_SUM.replace("\n", "\nimport nbdist; nbdist.rejoin()\n", 1))
    kernel.run("%dist_session end")

    assert "rank 1: ValueError: mine (line 2)" in alone.error
    assert "rank 0 waited for other ranks in line 3" in alone.error
    assert "to be made again: model (DataParallel), pair (Group)" in rejoined.stdout, rejoined.error
    for shown in (rejoined, by_hand):
        assert [lines[-1] for lines in by_rank(shown.stdout).values()] == ["2 2 499500"] * 2, shown.error
