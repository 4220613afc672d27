# expect: rank any
# cause: different collectives|in barrier|called barrier there
# fix: every rank|same collectives|all ranks|if rank
"""huggingface/transformers-bloom-inference#40: rank 0 alone calls barrier()."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
weights = torch.zeros(4)
if dist.get_rank() == 0:
    weights += 1
    dist.barrier()  # here
dist.broadcast(weights, src=0)  # here
