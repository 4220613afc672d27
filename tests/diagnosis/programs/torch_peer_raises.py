# expect: rank 1, line 9, signature none
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
if dist.get_rank() == 1:
    raise RuntimeError("boom on rank 1")
dist.all_reduce(value)
