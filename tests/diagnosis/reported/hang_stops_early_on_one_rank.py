# expect: hang, rank any
# cause: left out or added at line 16
# fix: every rank|all ranks|all_reduce|together
# run: -n 2 --hang-after 2s
"""Lightning-AI/pytorch-lightning#379: early stopping by the rank's own loss: one rank leaves the loop."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
patience = 0
for _epoch in range(6):
    model(torch.ones(1, 2)).sum().backward()  # here
    patience += dist.get_rank()
    if patience == 3:
        break
dist.barrier()  # here
