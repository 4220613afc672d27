# expect: hang, rank any
# cause: went into  if len\(boxes\)
# fix: every rank|all ranks|outside|\bif\b
# run: -n 2 --hang-after 2s
"""weecology/DeepForest#1407: a metric is synchronised only where the rank's images have boxes."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
boxes = torch.ones(3 * (1 - dist.get_rank()), 4)
if len(boxes):
    overlap = boxes.mean()
    dist.all_reduce(overlap)  # here
precision = [torch.zeros(1) for _ in range(2)]
dist.all_gather(precision, torch.ones(1))  # here
