import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
if rank == 0:  # every rank must call it: rank 0 waits for the others in here
    dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 2))
