# expect: rank 1, line 10, signature uneven-steps, early 0
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for _step in range(3 + dist.get_rank()):
    model(torch.ones(1, 2)).sum().backward()
