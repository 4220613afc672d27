# expect: rank 1
# cause: different numbers of steps|one less|fewer
# fix: together|agree|all_reduce|broadcast
"""speechbrain/speechbrain#1939: one rank reaches its early stop and ends while the others train on."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
worse = 0
for _epoch in range(6):
    model(torch.ones(1, 2)).sum().backward()  # here
    worse += dist.get_rank()
    if worse == 3:
        print("early stop")
        break
