# line: -n 2
# first: Train: 0 \[\s+0/4 \(\s*0%\)\]\s+Loss: \d
# first: Test: \[\s+1/1\]\s+Time: .*Acc@1:
# more: torch_mnist_style runs the same way
"""The logs of long training scripts: a logger set up in rank 0, averages over ranks, a summary file."""

import csv
import logging
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as NativeDDP

_logger = logging.getLogger("train")


def setup_default_logging(rank):
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO if rank == 0 else logging.WARNING)


def reduce_tensor(tensor, n):
    rt = tensor.clone()
    dist.all_reduce(rt, op=dist.ReduceOp.SUM)
    return rt / n


dist.init_process_group(backend="gloo", init_method="env://")
rank, world_size = dist.get_rank(), dist.get_world_size()
setup_default_logging(rank)
_logger.info("Training in distributed mode with multiple processes. Process %d, total %d.", rank, world_size)
torch.manual_seed(42 + rank)
model = NativeDDP(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
for index in range(4):
    begun = time.time()
    x, target = torch.randn(16, 8), torch.randint(0, 4, (16,))
    loss = loss_fn(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    reduced = reduce_tensor(loss.data, world_size)
    lr = optimizer.param_groups[0]["lr"]
    took = time.time() - begun
    _logger.info(
        f"Train: 0 [{index:>4d}/4 ({100 * index / 3:>3.0f}%)]  Loss: {reduced.item():#.3g} ({reduced.item():#.3g})  "
        f"Time: {took:.3f}s, {16 * world_size / took:>7.2f}/s  LR: {lr:.3e}"
    )
with torch.no_grad():
    right = (model(x).argmax(1) == target).float().mean() * 100
right = reduce_tensor(right, world_size)
took = f"Time: 0.010 (0.010)  Loss: {loss.item():>7.3f}"
_logger.info(f"Test: [{1:>4d}/1]  {took}  Acc@1: {right.item():>7.3f}")
if rank == 0:
    with open(os.path.join(tempfile.mkdtemp(), "summary.csv"), "w", newline="") as file:
        csv.writer(file).writerows([["epoch", "train_loss"], [0, reduced.item()]])
dist.barrier()
dist.destroy_process_group()
