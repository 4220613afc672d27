# expect: rank 1, line 14, signature hang-joining
import os
from datetime import timedelta

import torch
import torch.distributed as dist

# how many there were where the program was written
SIZES = {"world_size": 4}


def setup(rank):
    limit = timedelta(seconds=3 if rank == 1 else 60)
    dist.init_process_group("gloo", rank=rank, timeout=limit, **SIZES)


setup(int(os.environ["RANK"]))
total = torch.ones(1)
dist.all_reduce(total)
