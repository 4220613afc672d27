# expect: rank 0, line 10, signature rank-was-busy, absent 1
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=3))
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1))
else:
    print("rank 1 is computing something else")
    time.sleep(60)
