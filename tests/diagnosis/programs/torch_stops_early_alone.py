# expect: rank 1, line 21, signature hang-loop-left
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(10, 1))
best, bad = float("inf"), 0
for epoch in range(30):
    for _ in range(4):
        model(torch.ones(16, 10)).sum().backward()
    # the loss of this rank's part of the data
    value = 1.0 if rank == 1 else 1.0 / (epoch + 1)
    best, bad = min(best, value), bad + 1 if value >= best else 0
    if bad == 2:
        break

# one number, where the other rank reduces the gradients
final = torch.ones(1)
dist.all_reduce(final)
