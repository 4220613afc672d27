# expect: rank 1, line 10, signature exit-segmentation-fault
import ctypes

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    ctypes.string_at(0)
dist.all_reduce(torch.ones(1))
