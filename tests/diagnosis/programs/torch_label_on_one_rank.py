# expect: rank 1, line 11, signature target-out-of-range
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 10))
for step in range(3):
    labels = torch.full((4,), step)
    labels[0] += 10 * dist.get_rank()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), labels)
    loss.backward()
