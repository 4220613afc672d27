# expect: rank 1, line 11, signature checkpoint-module-prefix
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 2)))
saved = model.state_dict()
dist.barrier()
if dist.get_rank() == 1:
    fresh = nn.Sequential(nn.Linear(4, 2))
    fresh.load_state_dict(saved)
dist.barrier()
