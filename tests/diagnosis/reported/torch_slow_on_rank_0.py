# expect: rank 0
# cause: tokenizing|slower|took longer
# fix: timeout=
"""huggingface/accelerate#1752: rank 0 prepares the data for longer than the others wait."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
if dist.get_rank() == 0:
    for shard in range(100):
        print("tokenizing shard", shard)
        time.sleep(0.5)  # here
dist.all_reduce(torch.ones(1))
