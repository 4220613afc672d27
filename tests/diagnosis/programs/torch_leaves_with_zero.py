# expect: rank 0, line 11, signature left-early, early 1
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    os._exit(0)
dist.all_reduce(torch.ones(1))
