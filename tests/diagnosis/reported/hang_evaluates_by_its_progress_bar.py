# expect: hang, rank 0
# cause: went into  if progress == 3
# fix: every rank|all ranks|\bif\b
# run: -n 3 --hang-after 2s
"""huggingface/transformers#31532: the steps are counted by a progress bar that only the main process has."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
progress = 0
for _step in range(6):
    model(torch.ones(1, 2)).sum().backward()  # here
    progress += dist.get_rank() == 0
    if progress == 3:
        scores = [torch.zeros(1) for _ in range(3)]
        dist.all_gather(scores, torch.ones(1))  # here
