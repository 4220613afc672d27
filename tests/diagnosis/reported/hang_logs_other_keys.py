# expect: hang, rank any
# cause: fewer rounds of  for value in metrics\.values
# fix: every rank|all ranks|same keys|same .*collectives
# run: -n 2 --hang-after 2s
"""Lightning-AI/pytorch-lightning#19106: each metric is reduced by itself; one rank has one more."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
metrics = {"loss": 1.0, "accuracy": 0.5}
if dist.get_rank() == 1:
    metrics["mask_loss"] = 0.1
for value in metrics.values():
    dist.all_reduce(torch.tensor(value))  # here
dist.barrier()  # here
