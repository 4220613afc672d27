# line: -n 1
# first: rank 1 of 2 has 3.0
# more: notebook 02 spawns the same way
"""A program that starts its ranks itself, under ``if __name__ == "__main__"``."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "12355")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def demo(rank, world_size):
    setup(rank, world_size)
    value = torch.tensor([float(rank + 1)])
    dist.all_reduce(value)
    print(f"rank {rank} of {world_size} has {value.item()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(demo, args=(2,), nprocs=2, join=True)
