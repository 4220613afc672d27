# expect: rank any, line 20, signature ddp-unused-parameters
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.used(x)


model = nn.parallel.DistributedDataParallel(Net())
for _step in range(3):
    model(torch.ones(2, 4)).sum().backward()
