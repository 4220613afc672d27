# expect: nothing
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
data = [(torch.randn(8), index % 10) for index in range(32)]
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
time.sleep(dist.get_rank())
dist.destroy_process_group()
