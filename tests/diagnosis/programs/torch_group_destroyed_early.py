# expect: rank 0, line 12, signature peer-closed
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    dist.destroy_process_group()
    time.sleep(20)
dist.all_reduce(torch.ones(1))
