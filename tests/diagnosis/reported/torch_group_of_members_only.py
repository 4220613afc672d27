# expect: rank any
# cause: new_group|different collectives
# fix: every rank|all ranks|same .*calls
"""vllm-project/llm-compressor#2869: only some ranks call new_group(), which all have to call."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
if dist.get_rank() == 0:
    group = dist.new_group(timeout=timedelta(seconds=6))  # here
dist.all_reduce(torch.ones(1))  # here
