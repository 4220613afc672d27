# expect: hang, rank any
# cause: rank 0 (alone|only)|different collectives
# fix: model\.module|every rank|all ranks
# run: -n 2 --hang-after 2s
"""pytorch/pytorch#54059: rank 0 validates with the model in DDP, and the others wait in a barrier."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
for _step in range(3):
    model(torch.randn(8, 4)).sum().backward()
if dist.get_rank() == 0:
    for _batch in range(3):
        accuracy = model(torch.randn(8, 4)).mean()  # here
        dist.all_reduce(accuracy)
dist.barrier()  # here
