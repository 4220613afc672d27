# expect: rank any
# cause: \bRANK\b|same rank|rank 0
# fix: \bRANK\b
# never: drop MASTER_PORT
"""switchablenorms/Switchable-Normalization#16: the program sets RANK, on every rank to 0."""

import os
from datetime import timedelta

import torch.distributed as dist

os.environ["RANK"] = str(0)
dist.init_process_group("gloo", timeout=timedelta(seconds=5))  # here
dist.barrier()
