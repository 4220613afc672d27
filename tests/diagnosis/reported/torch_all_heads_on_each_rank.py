# expect: rank any
# cause: tensor.parallel|shard|split over|each rank has
# fix: -1|heads
"""huggingface/transformers#34789: a layer is split over the ranks; the model still counts all heads."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

dist.init_process_group("gloo")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)

    def forward(self, x):
        return self.query(x).view(*x.shape[:2], 4, 4)  # here


model = parallelize_module(Attention(), init_device_mesh("cpu", (2,)), {"query": ColwiseParallel()})
model(torch.randn(2, 3, 16))
