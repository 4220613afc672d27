# expect: hang, rank any
# cause: fewer rounds of  for _view in range\(count\)
# fix: same (number|seed|steps)|every rank|all ranks
# run: -n 2 --hang-after 2s
"""facebookresearch/detr#297: each rank has a seed of its own, and draws the number of views."""

import random

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
random.seed(dist.get_rank())
for _epoch in range(20):
    count = random.randint(1, 6)
    for _view in range(count):
        dist.all_reduce(torch.ones(1))  # here
    dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))  # here
