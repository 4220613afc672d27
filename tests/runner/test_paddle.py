"""PaddlePaddle programs, as cells."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    # looked for, not imported: this process is to stay one without paddle
    pytest.mark.skipif(find_spec("paddle") is None, reason="paddle is not installed"),
]


def test_ranks_meet_with_nothing_but_the_environment(run_cell) -> None:
    cell = """
import paddle, paddle.distributed as dist
dist.init_parallel_env()
total = paddle.to_tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print("sum", int(total.item()), "of", dist.get_world_size())
"""

    handle = run_cell("-n 2", cell)

    assert handle.status == "finished", handle.logs(0)
    assert [handle.logs(rank).splitlines()[-1] for rank in (0, 1)] == ["sum 3 of 2", "sum 3 of 2"]
    assert all(rank.joined for rank in handle.run.ranks)


def test_rank_1_does_not_sleep_when_it_is_there_first(run_cell) -> None:
    # paddle sleeps three seconds when rank 1 connects before rank 0 listens
    cell = """
import os, time, paddle, paddle.distributed as dist
if os.environ["RANK"] == "0":
    open("here", "w").close()
    time.sleep(0.7)
while not os.path.exists("here"): time.sleep(0.01)
begin = time.time()
dist.init_parallel_env()
print("took", time.time() - begin)
"""

    handle = run_cell("-n 2", cell)

    assert handle.status == "finished", handle.logs(1)
    assert float(handle.logs(1).split()[-1]) < 2.5
