"""A rank is killed at any moment, while it saves, too: the run goes on from what was finished last, and ends
with the numbers of a run that nothing has disturbed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from nbdist import runner
from nbdist.model import RankState

pytestmark = pytest.mark.usefixtures("leaves_nothing")

STEPS, RANKS, PRIME = 100, 2, 1_000_003
LIMIT = 120.0

# each step depends on all before it, and on every rank: none may be done twice, or left out
_STEP = f"value = (value * 31 + int(total)) % {PRIME}"

TORCH = f"""
import os, torch, nbdist
import torch.distributed as dist
dist.init_process_group("gloo")
rank, value, first = dist.get_rank(), 0, 0
if (latest := nbdist.latest_checkpoint()) is not None:
    state = torch.load(latest / "state.pt")
    value, first = state["value"], state["step"] + 1
    assert state["ballast"].eq(state["step"]).all()
print(f"attempt {{nbdist.attempt()}} begins with step {{first}}", flush=True)
for step in range(first, {STEPS}):
    total = torch.tensor(step * 7 + rank)
    dist.all_reduce(total)
    {_STEP}
    if rank == 0:
        # large enough for a kill to come in the middle of it
        with nbdist.checkpoint(step, keep=2) as path:
            ballast = torch.full((300_000,), step)
            torch.save({{"value": value, "step": step, "ballast": ballast}}, path / "state.pt")
    print("step", step, flush=True)
dist.barrier()
nbdist.result(value=value, first=first)
"""

PADDLE = f"""
import os, paddle, nbdist
import paddle.distributed as dist
dist.init_parallel_env()
rank, value, first = dist.get_rank(), 0, 0
if (latest := nbdist.latest_checkpoint()) is not None:
    state = paddle.load(str(latest / f"shard-{{rank}}.pdparams"))
    assert {{file.name for file in latest.iterdir()}} == {{f"shard-{{r}}.pdparams" for r in range({RANKS})}}
    value, first = int(state["value"]), int(state["step"]) + 1
print(f"attempt {{nbdist.attempt()}} begins with step {{first}}", flush=True)
for step in range(first, {STEPS}):
    total = paddle.to_tensor(step * 7 + rank)
    dist.all_reduce(total)
    {_STEP}
    with nbdist.checkpoint(step, sharded=True, keep=2) as path:
        ballast = paddle.full([300_000], step, dtype="int64")
        shard = {{"value": paddle.to_tensor(value), "step": paddle.to_tensor(step), "ballast": ballast}}
        paddle.save(shard, str(path / f"shard-{{rank}}.pdparams"))
    print("step", step, flush=True)
dist.barrier()
nbdist.result(value=value, first=first)
"""


def undisturbed() -> int:
    value = 0
    for step in range(STEPS):
        value = (value * 31 + sum(step * 7 + rank for rank in range(RANKS))) % PRIME
    return value


def kill_one(handle: runner.RunHandle, chosen: random.Random) -> int:
    """Kill one of the ranks at a moment of its work; return a step that rank 0 had printed by then."""
    enough, deadline = chosen.randrange(1, STEPS // 2), time.monotonic() + LIMIT
    while f"step {enough}\n" not in handle.logs(0):
        assert time.monotonic() < deadline, handle.logs(0)
        time.sleep(0.002)
    time.sleep(chosen.random() * 0.02)  # within a step
    rank = handle.run.ranks[chosen.randrange(RANKS)]
    assert rank.state is RankState.RUNNING
    assert rank.process is not None
    os.kill(rank.process.pid, signal.SIGKILL)
    return enough


@pytest.mark.parametrize("program", [pytest.param(TORCH, id="torch"), pytest.param(PADDLE, id="paddle")])
def test_a_killed_run_goes_on_from_its_last_checkpoint_and_ends_right(
    start_cell: Callable[..., runner.RunHandle], program: str
) -> None:
    seed = random.randrange(10**9)
    handle = start_cell(f"-n {RANKS} --retries 3 --hang-after off", program)

    reached = kill_one(handle, random.Random(seed))

    assert handle.wait(LIMIT) == "finished", (seed, handle.logs(0))
    run, attempts = handle.run, (1, 2, 3)
    logs = [handle.directory.rank(rank, attempt).log for attempt in attempts for rank in range(RANKS)]
    assert run.attempt == 2, (seed, run.failures, [log.read_text() for log in logs if log.exists()])
    results = handle.results.gather("value"), handle.results.gather("first")
    assert results[0] == [undisturbed()] * RANKS, (seed, results)
    first, other = results[1]
    # a rank that prints a step has met the others in it, and so all have saved the one before
    assert first == other >= reached, (seed, results)
