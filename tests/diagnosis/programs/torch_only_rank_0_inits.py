# expect: rank 1, line 11, signature group-not-initialized
import os
from datetime import timedelta

import torch.distributed as dist
import torch.nn as nn

rank = int(os.environ["RANK"])
if rank == 0:
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
