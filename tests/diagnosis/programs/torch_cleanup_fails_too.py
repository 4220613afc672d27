# expect: rank 1, line 11, signature none
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
try:
    if dist.get_rank() == 1:
        {}["learning_rate"]
    dist.recv(torch.ones(1), src=1)
    os._exit(0)
finally:
    if dist.get_rank() == 1:
        dist.send(torch.ones(1), dst=0)
    dist.all_reduce(torch.ones(1))
