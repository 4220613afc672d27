"""Programs that train on two ranks, each named after its mistake or its correct way.

Each continues its framework's first lines; ``# here`` marks the line that a warning names.
"""

from __future__ import annotations

TORCH = """
import contextlib, copy, itertools, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))

def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

def shared(**more):
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data, **more))

def train(model, loader, *, epochs=1, optimizer=None, begin=lambda epoch: None, call=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        begin(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss((call or model)(x), y).backward()
            optimizer.step()
"""

PADDLE = """
import numpy as np, paddle
import paddle.distributed as dist
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset, DistributedBatchSampler
dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
paddle.seed(0)
np.random.seed(0)

class Points(Dataset):
    def __init__(self, count=64):
        values = np.random.RandomState(1)
        self.x = values.randn(count, 4).astype("float32")
        self.y = values.randn(count, 1).astype("float32")
    def __getitem__(self, index):
        return self.x[index], self.y[index]
    def __len__(self):
        return len(self.x)

data = Points()

def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

def shared(**more):
    return DataLoader(data, batch_sampler=DistributedBatchSampler(data, batch_size=4, **more))

def train(model, loader, *, epochs=1, begin=lambda epoch: None, call=None):
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
    for epoch in range(epochs):
        begin(epoch)
        for x, y in loader:
            nn.functional.mse_loss((call or model)(x), y).backward()
            optimizer.step()
            optimizer.clear_grad()
"""

MISTAKES = {
    "torch_no_sampler": """
# expect: every rank reads the same batches (DataLoader, {here}): DistributedSampler is missing
loader = DataLoader(data, batch_size=4)  # here
train(DDP(net()), loader)
""",
    "torch_stream_read_by_all": """
# expect: every rank reads the same batches (DataLoader, {here}): let each take its share
class Stream(IterableDataset):
    def __iter__(self):
        return iter(data)
loader = DataLoader(Stream(), batch_size=4)  # here
train(DDP(net()), loader)
""",
    "torch_sampler_of_one_replica": """
# expect: every rank reads the same batches (DataLoader, {here}): all have the same share
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, num_replicas=1, rank=0))  # here
train(DDP(net()), loader)
""",
    "torch_own_sampler_of_batches": """
# expect: every rank reads the same batches (DataLoader, {here}): let ByLength give each its share
class ByLength:
    def __iter__(self):
        return iter([list(range(at, at + 4)) for at in range(0, 64, 4)])
    def __len__(self):
        return 16
loader = DataLoader(data, batch_sampler=ByLength())  # here
train(DDP(net()), loader)
""",
    "torch_draws_alike_by_weight": """
# expect: every rank reads the same batches (DataLoader, {here}): let each draw others by  Weighted
from torch.utils.data import WeightedRandomSampler
loader = DataLoader(data, batch_size=4, sampler=WeightedRandomSampler([1.0] * 64, 64))  # here
train(DDP(net()), loader)
""",
    "torch_never_sets_the_epoch": """
# expect: every epoch has the same order (DataLoader, {here}): write  sampler.set_epoch(epoch)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))  # here
train(DDP(net()), loader, epochs=2)
""",
    "torch_calls_the_inner_model": """
# expect: Sequential differ between ranks at step 8, since DistributedDataParallel is never called
model = DDP(net())  # here
train(model, shared(), call=model.module)
""",
    "paddle_no_sampler": """
# expect: every rank reads the same batches (DataLoader, {here}): DistributedBatchSampler is missing
loader = DataLoader(data, batch_size=4)  # here
train(paddle.DataParallel(net()), loader)
""",
    "paddle_shuffles_alike": """
# expect: every rank reads the same batches (DataLoader, {here}): DistributedBatchSampler is missing
from paddle.distributed import fleet
fleet.init(is_collective=True)
loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=1)  # here
train(fleet.distributed_model(net()), loader)
""",
    "paddle_sets_one_epoch": """
# expect: every epoch has the same order (DataLoader, {here}): write  sampler.set_epoch(epoch)
loader = DataLoader(data, batch_sampler=DistributedBatchSampler(data, batch_size=4, shuffle=True))  # here
train(paddle.DataParallel(net()), loader, epochs=3, begin=lambda _: loader.batch_sampler.set_epoch(0))
""",
    "paddle_calls_the_inner_model": """
# expect: Sequential differ between ranks at step 8, since paddle.DataParallel is never called
model = paddle.DataParallel(net())  # here
train(model, shared(), call=model._layers)
""",
}

RIGHT = {
    "torch_sampler_and_epoch": """
loader = shared()
train(DDP(net()), loader, epochs=3, begin=loader.sampler.set_epoch)
""",
    "torch_sampler_that_does_not_shuffle": """
train(DDP(net()), shared(shuffle=False), epochs=3)
""",
    "torch_one_batch_overfitted": """
x, y = next(iter(DataLoader(data, batch_size=4)))
train(DDP(net()), [(x, y)] * 30)
""",
    "torch_loader_of_one_batch": """
few = TensorDataset(*(tensor[:4] for tensor in data.tensors))
train(DDP(net()), DataLoader(few, batch_size=4), epochs=20)
""",
    "torch_tensors_without_a_loader": """
train(DDP(net()), [(torch.ones(4, 4) * n, torch.ones(4, 1)) for n in range(20)])
""",
    "torch_streams_a_share": """
class Stream(IterableDataset):
    def __iter__(self):
        return itertools.islice(iter(data), rank, None, world)
train(DDP(net()), DataLoader(Stream(), batch_size=4), epochs=3)
""",
    "torch_global_batch_cut_in_the_loop": """
pairs = ((x[rank::world], y[rank::world]) for x, y in DataLoader(data, batch_size=8))
train(DDP(net()), pairs)
""",
    "torch_evaluates_everything_on_each_rank": """
loader, whole, model = shared(), DataLoader(data, batch_size=4), DDP(net())
for part in range(2):
    model.eval()
    with torch.no_grad():
        for x, y in whole:
            model(x) if part else model.module(x)
    model.train()
    loader.sampler.set_epoch(part)
    train(model, loader)
""",
    "torch_evaluates_with_a_shuffling_sampler": """
loader, held_out, model = shared(), shared(), DDP(net())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(4):
    train(model, loader, optimizer=optimizer, begin=lambda _: loader.sampler.set_epoch(epoch))
    with torch.no_grad():
        for x, y in held_out:
            model(x)
""",
    "torch_gan": """
loader, judge, maker = shared(), DDP(net()), DDP(nn.Linear(4, 4))
torch.manual_seed(rank)
judging, making = (torch.optim.Adam(one.parameters(), 0.01) for one in (judge, maker))
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for x, _ in loader:
        judging.zero_grad()
        (judge(x).mean() - judge(maker(torch.randn(4, 4)).detach()).mean()).backward()
        judging.step()
        making.zero_grad()
        judge.requires_grad_(False)
        judge(maker(torch.randn(4, 4))).mean().backward()
        judge.requires_grad_(True)
        making.step()
""",
    "torch_accumulates_with_no_sync": """
loader, model = shared(), DDP(net())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        ends = number % 2 == 1
        with contextlib.nullcontext() if ends else model.no_sync():
            nn.functional.mse_loss(model(x), y).backward()
        if ends:
            optimizer.step()
            optimizer.zero_grad()
""",
    "torch_group_of_each_rank": """
groups = [dist.new_group([one]) for one in range(world)]
torch.manual_seed(rank)
train(DDP(net(), process_group=groups[rank]), DataLoader(data, batch_size=4), epochs=2)
""",
    "torch_uneven_ranks_join": """
own = TensorDataset(*(tensor[: 32 + 12 * rank] for tensor in data.tensors))
model, chance = DDP(net()), torch.Generator().manual_seed(rank)
with model.join():
    train(model, DataLoader(own, batch_size=4, shuffle=True, generator=chance), epochs=2)
""",
    "torch_fully_sharded": """
from torch.distributed.fsdp import fully_shard
loader, model = shared(), net()
fully_shard(model)
train(model, loader, epochs=2, begin=loader.sampler.set_epoch)
""",
    "torch_tensor_parallel": """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("dp", "tp"))
model = parallelize_module(net(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
train(model, DataLoader(data, batch_size=4), epochs=2, optimizer=optimizer)
""",
    "torch_pipeline_of_two_stages": """
model = nn.Linear(4, 4) if rank == 0 else net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x, y in DataLoader(data, batch_size=4):
    if rank == 0:
        sent = model(x)
        dist.send(sent.detach(), 1)
        gradient = torch.empty_like(sent)
        dist.recv(gradient, 1)
        sent.backward(gradient)
    else:
        got = torch.empty(4, 4)
        dist.recv(got, 0)
        got.requires_grad_()
        nn.functional.mse_loss(model(got), y).backward()
        dist.send(got.grad, 0)
    optimizer.step()
    optimizer.zero_grad()
""",
    "torch_compiled": """
loader = shared()
model = torch.compile(DDP(net()), backend="eager")
optimizer = torch.optim.Adam(model.parameters(), 0.01)
train(model, loader, epochs=2, optimizer=optimizer, begin=loader.sampler.set_epoch)
""",
    "torch_list_of_batches_for_a_sampler": """
mine = [list(range(first, first + 4)) for first in range(4 * rank, 64, 4 * world)]
train(DDP(net()), DataLoader(data, batch_sampler=mine), epochs=3)
""",
    "paddle_sampler_and_epoch": """
loader = shared(shuffle=True)
train(paddle.DataParallel(net()), loader, epochs=3, begin=loader.batch_sampler.set_epoch)
""",
    "paddle_sampler_that_counts_epochs_itself": """
train(paddle.DataParallel(net()), shared(shuffle=True), epochs=4)
""",
    "paddle_high_level": """
model = paddle.Model(net())
model.prepare(paddle.optimizer.Adam(0.01, parameters=model.parameters()), nn.MSELoss())
model.fit(data, data, batch_size=4, epochs=3, verbose=0)
""",
    "paddle_topology_of_tensor_parallel_ranks": """
from paddle.distributed import fleet
strategy = fleet.DistributedStrategy()
strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": world, "pp_degree": 1}
fleet.init(is_collective=True, strategy=strategy)
train(paddle.DataParallel(net()), DataLoader(data, batch_size=4), epochs=2)
""",
}
