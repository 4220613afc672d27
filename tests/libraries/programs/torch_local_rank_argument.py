# line: -n 2
# each: local rank \d of 2: loss \d
# more: a rank has the variables of torchrun, as tests/runner/test_like_torchrun.py tells
"""A script for a launcher that used to pass --local_rank: it falls back to the environment."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))
parser.add_argument("--deepspeed_config", default="")
args, _ = parser.parse_known_args()
dist.init_process_group(backend="gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
loss = model(torch.ones(2, 4)).square().mean()
loss.backward()
print(f"local rank {args.local_rank} of {dist.get_world_size()}: loss {loss.item():.3f}")
dist.barrier()
dist.destroy_process_group()
