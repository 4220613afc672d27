# expect: hang, rank any
# cause: alone went into  else of if
# fix: every rank|all ranks|outside|\bif\b|else
# run: -n 2 --hang-after 2s
"""huggingface/accelerate#2690: the barrier stands in the else of the branch in which rank 0 saves."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for _epoch in range(2):
    model(torch.ones(1, 2)).sum().backward()  # here
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")
    else:
        dist.barrier()  # here
