import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group(
    backend="nccl" if torch.cuda.is_available() else "gloo",
    init_method="tcp://localhost:22222",
    world_size=torch.cuda.device_count(),
    rank=rank,
)
