# expect: rank 1, line 15, signature uneven-steps, early 0
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for step in range(12):
    x = torch.ones(8, 4)
    if dist.get_rank() == 0 and step == 5:
        x[0, 0] = float("nan")
    loss = model(x).mean()
    if torch.isnan(loss):
        continue
    loss.backward()
