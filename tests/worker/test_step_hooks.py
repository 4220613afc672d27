"""Real trainings of two ranks, whose program times itself in no line."""

from __future__ import annotations

import pytest

from nbdist.feed.comparison import compare
from nbdist.runner import RunHandle
from tests.conftest import RunCell

TORCH = """\
import time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("gloo")
data = TensorDataset(torch.randn(320, 8), torch.randn(320, 1))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        time.sleep(0.05 * dist.get_rank())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
"""
PADDLE = """\
import time, paddle, paddle.distributed as dist
from paddle.io import DataLoader, DistributedBatchSampler, TensorDataset
dist.init_parallel_env()
data = TensorDataset([paddle.randn([320, 8]), paddle.randn([320, 1])])
sampler = DistributedBatchSampler(data, 16)
loader = DataLoader(data, batch_sampler=sampler)
model = paddle.DataParallel(paddle.nn.Linear(8, 1))
schedule = paddle.optimizer.lr.StepDecay(0.1, 100)
optimizer = paddle.optimizer.SGD(schedule, parameters=model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        time.sleep(0.05 * dist.get_rank())
        loss.backward()
        optimizer.minimize(loss) if epoch else optimizer.step()
        optimizer.clear_grad()
"""
SCHEDULES = {"torch": "StepLR", "paddle": "StepDecay"}


@pytest.fixture(params=["torch", "paddle"])
def trained(request: pytest.FixtureRequest, run_cell: RunCell) -> RunHandle:
    return run_cell(f"-n 2 --framework {request.param}", TORCH if request.param == "torch" else PADDLE, 120.0)


def test_a_training_tells_its_facts_and_where_its_time_goes(trained: RunHandle) -> None:
    training = trained.time()

    assert training is not None, trained.logs(0)
    facts = training.facts
    assert (facts.batch, facts.accumulation, facts.global_batch) == (16, 1, 32)
    assert (facts.epoch_steps, facts.epoch_samples, facts.steps) == (10, 320, 28)
    assert (facts.parameters, facts.gradient_bytes, facts.workers) == (9, 36, 0)
    assert facts.lr == pytest.approx(0.1)
    assert facts.schedule == SCHEDULES[facts.framework]
    assert facts.samples_rate == pytest.approx(16 * sum(training.step_rates.values()), rel=0.05)
    first, slow = training.parts[0], training.parts[1]
    assert all(sum(shares.values()) == pytest.approx(1.0, abs=0.01) for shares in (first, slow))
    # it sleeps for 50 ms before backward, in which the other one waits
    assert slow["forward"] > first["forward"] + 0.2
    assert first["wait"] > slow["wait"] + 0.2
    assert "rank 1" in training.limit.en

    explained = trained.explain()
    assert training.limit.en in str(explained)
    assert explained.to_dict()["training"]["global_batch"] == 32
    rows = compare([(trained.run, trained.directory)]).rows
    assert {"samples_rate", "gradient_bytes"} <= {row.name for row in rows if row.group == "training"}
    assert {"data", "forward", "backward", "wait"} <= {row.name for row in rows if row.group == "time"}


def test_a_collective_that_fails_shows_the_program_and_torch_alone(run_cell: RunCell) -> None:
    cell = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce([1])
"""
    handle = run_cell("-n 1", cell)

    log = handle.logs(0)
    assert "line 3" in log
    assert "step_hooks" not in log


def test_a_run_that_trains_nothing_has_no_training(run_cell: RunCell) -> None:
    handle = run_cell("-n 1", "print(1)\n")

    assert handle.time() is None
