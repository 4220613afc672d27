# expect: rank any
# cause: different collectives|another collective|collective mismatch|some ranks alone call all_reduce
# fix: same calls|same collectives|same order|all ranks|every rank
"""Intellindust-AI-Lab/DEIMv2#113: a rank without positives leaves out one collective of the loss."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
positives = 3 * (1 - dist.get_rank())
for _step in range(3):
    loss = model(torch.ones(2, 64)).sum()
    if positives:
        count = torch.tensor(float(positives))
        dist.all_reduce(count)  # here
        loss = loss / count
    loss.backward()
