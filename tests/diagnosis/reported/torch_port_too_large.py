# expect: rank any
# cause: port
# fix: MASTER_PORT|65535|free port
"""pytorch/pytorch#43685: the program writes out a port that is none."""

import os

import torch.distributed as dist

os.environ["MASTER_PORT"] = "123553"
dist.init_process_group("gloo")  # here
