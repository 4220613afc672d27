# expect: rank any
# cause: no gradient came for
# fix: find_unused_parameters
"""lhotse-speech/lhotse#554: each rank has data of another kind, and uses the layer for that."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])

    def forward(self, x, kind):
        return self.heads[kind](x)


model = nn.parallel.DistributedDataParallel(TwoHeads())
for _step in range(3):
    model(torch.ones(2, 4), dist.get_rank()).sum().backward()  # here
