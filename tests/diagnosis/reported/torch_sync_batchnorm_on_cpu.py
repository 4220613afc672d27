# expect: rank any
# cause: GPU
# fix: leave|use BatchNorm|only on|BatchNorm1d|without|skip|--gpus
"""pytorch/pytorch#78078: convert_sync_batchnorm() on ranks of the CPU."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
model = nn.parallel.DistributedDataParallel(model)  # here
model(torch.randn(8, 4)).sum().backward()
